"""Settings: from the environment, in code, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rulegrad.config import SETTINGS, Config, config, default_cache_folder, read_environment
from rulegrad.errors import ConfigError


def test_defaults() -> None:
    values = read_environment({})
    assert set(values) == set(SETTINGS)
    assert values["device"] == "" and values["debug"] == values["check"] == 0
    assert values["rules_off"] == values["backends"] == ()
    assert values["cache"] == default_cache_folder()


def test_the_environment_is_read() -> None:
    values = read_environment(
        {
            "RULEGRAD_DEVICE": " numpy ",
            "DEBUG": "2",
            "CHECK": "1",
            "RULES_OFF": "zero, simple.one,",
            "RULEGRAD_CACHE": "~/somewhere",
            "RULEGRAD_BACKENDS": os.pathsep.join(["a", "b/c"]),
            "OTHER": "ignored",
        }
    )
    assert values["device"] == "numpy" and values["debug"] == 2 and values["check"] == 1
    assert values["rules_off"] == ("zero", "simple.one")
    assert values["cache"] == Path.home() / "somewhere"
    assert values["backends"] == ("a", "b/c")


def test_an_empty_variable_is_no_setting() -> None:
    assert read_environment({"DEBUG": ""})["debug"] == 0


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"DEBUG": "6"}, r"environment variable DEBUG is '6'; it takes a number from 0 to 5"),
        ({"DEBUG": "yes"}, "DEBUG is 'yes'"),
        ({"CHECK": "-1"}, "it takes 0, 1 or 2"),
        ({"RULEGRAD_DEVCE": "numpy"}, "unknown environment variable 'RULEGRAD_DEVCE'; did you mean RULEGRAD_DEVICE"),
    ],
)
def test_a_wrong_environment(environment: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_environment(environment)


def test_settings_for_a_block() -> None:
    settings = config(debug=2, rules_off=["a", "b"])
    before = config.debug
    with settings as inside:
        assert inside is config and config.debug == 2 and config.rules_off == ("a", "b")
        with config(debug=3), settings:
            assert config.debug == 2
        assert config.debug == 2
    assert config.debug == before


def test_a_call_without_a_block_says_that_it_changes_nothing() -> None:
    before = config.threads
    with pytest.warns(UserWarning, match=r"config\(threads=3\) by itself changes nothing: .*`config.threads = "):
        config(threads=3)
    assert config.threads == before


def test_the_block_ends_with_an_error_too() -> None:
    before = config.check
    with pytest.raises(KeyError), config(check=2):
        raise KeyError
    assert config.check == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"debg": 2}, "unknown setting 'debg'; did you mean debug"),
        ({"xyzzy": 2}, "the known ones are device"),
        ({"debug": "loud"}, "setting debug is 'loud'; it takes a number from 0 to 5"),
        ({"debug": 1.5}, "setting debug is 1.5"),
        ({"device": 3}, "setting device is 3; it takes a device name"),
        ({"cache": ""}, "it takes a folder"),
        ({"backends": [3]}, "it takes folders"),
    ],
)
def test_wrong_settings_are_refused_at_once(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config(**settings)


def test_setting_for_good() -> None:
    own = Config()
    own.debug = 4
    assert own.debug == 4
    with pytest.raises(ConfigError, match="unknown setting 'verbose'"):
        own.verbose = True
    with pytest.raises(ConfigError, match="setting check is 7"):
        own.check = 7
    with pytest.raises(ConfigError, match="unknown setting 'chek'; did you mean check"):
        _ = own.chek
    assert "debug=4" in repr(own)


def test_a_wrong_environment_does_not_stop_the_import() -> None:
    code = "import rulegrad\ntry: rulegrad.config.debug\nexcept rulegrad.errors.ConfigError as e: print(e)"
    environment = {**os.environ, "DEBUG": "no"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and "environment variable DEBUG is 'no'" in done.stdout


def test_the_platforms_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert default_cache_folder() == Path("/x/rulegrad")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert default_cache_folder().parts[-3:] == ("Library", "Caches", "rulegrad")
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", "/local")
    assert default_cache_folder() == Path("/local/rulegrad")


def test_the_page_of_settings_has_all_of_them() -> None:
    text = (Path(__file__).resolve().parents[1] / "docs" / "settings.md").read_text(encoding="utf-8")
    for setting in SETTINGS.values():
        row = next((line for line in text.splitlines() if line.startswith(f"| `{setting.name}` |")), "")
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert cells[1:3] == [f"`{setting.variable}`", setting.takes], f"docs/settings.md lacks {setting.name}"
        assert cells[4] == setting.help, f"docs/settings.md says something else of {setting.name}"
    levels = text.partition("## Output of DEBUG")[2]
    assert all(f"\n| {level} | " in levels for level in range(1, 6))


@pytest.mark.parametrize("name, value", [
    ("debug", float("inf")), ("debug", 10**400), ("check", float("nan")), ("rules_order", 3.5), ("rules_off", 5),
    ("rules_limit", "algebra.zero:" + "9" * 30), ("rules_limit", ("algebra.zero",)), ("rules_limit", (3, 4)), ("threads", 10**30),
    ("cache", "~nobody-of-this-name/cache"), ("cache", 5), ("cache", "a" * 5000), ("cache", "a\0b"), ("rules", "~nobody-of-this-name/x"),
    ("rules", "a" * 5000), ("rules", "a\0b"), ("backends", "~nobody-of-this-name/x"), ("backends", "a" * 5000), ("backends", "a\0b"),
    ("externs", 2), ("externs", "yes"), ("device", 3),
])  # fmt: skip
def test_odd_values_are_errors_of_ours(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"setting {name} is "):
        config(**{name: value})
