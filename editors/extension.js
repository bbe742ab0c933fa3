// Starts `python -m rulegrad language-server` for rule files. Without vscode-languageclient (see README.md) or without the
// server there are still the colours.
"use strict";

const vscode = require("vscode");

let client;

async function activate() {
  let library;
  try {
    library = require("vscode-languageclient/node");
  } catch {
    return;
  }
  const command = vscode.workspace.getConfiguration("rulegrad").get("python", "python");
  client = new library.LanguageClient(
    "rulegrad",
    "rulegrad rules",
    { command, args: ["-m", "rulegrad", "language-server"] },
    { documentSelector: [{ language: "rulegrad" }] },
  );
  await client.start();
}

async function deactivate() {
  await client?.stop();
}

module.exports = { activate, deactivate };
