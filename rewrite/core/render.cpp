// Source text of a kernel: the rules give each node's text; names, parentheses and indentation are made here.
#include <algorithm>
#include <map>

#include "rewrite.hpp"

namespace rulegrad {

std::string spelling(const Program& p, const std::string& key, const std::string& otherwise) {
  auto found = p.limits.find(key);
  return found != p.limits.end() && found->second.tag == Tag::Str ? found->second.s->text : otherwise;
}

namespace {

struct Text {
  std::string text;
  int precedence = 16;
};

// A template with each field that it has replaced by its text.
std::string filled(std::string text, const std::map<std::string, std::string>& fields) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    auto field = std::find_if(fields.begin(), fields.end(), [&](auto& f) { return text.compare(at, f.first.size(), f.first) == 0; });
    result += field == fields.end() ? text.substr(at, 1) : field->second;
    at += field == fields.end() ? 1 : field->first.size();
  }
  return result;
}

constexpr size_t kLongestInline = 160;  // longer expressions get a name, for the reader of the source

class Renderer {
 public:
  Renderer(const Program& program, const Pass& pass, const std::vector<Line>& lines)
      : program_(program), pass_(pass), lines_(lines), machine_(program) {
    int depth = 0;
    for (const Line& l : lines) {
      if (l.closes) {
        depth--;
        continue;
      }
      depth_[l.node] = depth;
      if (l.node->op == known_ops.RANGE) depth++;
    }
    std::vector<Node*> nodes;
    for (const Line& l : lines) nodes.push_back(l.node);
    overwritten_ = overwritten(nodes);
    for (const Line& l : lines) {
      if (l.closes) continue;
      for (uint32_t k = 0; k < l.node->nsrc; k++) {
        uses_[l.node->src[k]]++;
        if (depth_[l.node] != depth_[l.node->src[k]]) deeper_[l.node->src[k]] = true;
      }
    }
  }

  Rendered run() {
    for (const Line& l : lines_) {
      if (l.closes) {
        indent_--;
        line(closing_.back());
        closing_.pop_back();  // node() sees to it that every loop opens a block
      } else {
        node(l.node);
      }
    }
    return std::move(out_);
  }

 private:
  void line(const std::string& text) { out_.body += std::string(size_t(indent_ + 1) * 2, ' ') + text + "\n"; }

  std::string name_of(Node* n) {
    auto found = names_.find(n);
    if (found != names_.end()) return found->second;
    std::string prefix = "alu";
    for (auto& [op, text] : pass_.prefixes)
      if (op == n->op) prefix = text->text;
    return names_[n] = prefix + std::to_string(counters_[prefix]++);
  }

  // The type of a value, or of the elements of a parameter where that is another.
  std::string type_of(Node* n) {
    if (n->op == known_ops.PARAM) {
      std::string memory = spelling(program_, "memory." + dtype_info(n->dtype).name->text, "");
      if (!memory.empty()) return memory;
    }
    auto found = program_.type_names.find(n->dtype);
    if (found == program_.type_names.end())
      throw RewriteError("the target has no dtype " + dtype_info(n->dtype).name->text + ", needed by " + describe(n));
    // a vector's type, as the target has it: a mask's depends on what was compared, so that none may say it for all
    if (n->op != known_ops.PARAM && n->op != known_ops.BUFFER && shape_of(n)->rank == 1) return spelling(program_, "template.vector", found->second->text);
    return found->second->text;
  }

  std::string field(Node* self, const Value& v, bool bare, int precedence) {
    if (v.tag == Tag::Str) return v.s->text;
    if (v.tag != Tag::Node) return show(v);
    if (v.n == self) return name_of(self);
    auto found = texts_.find(v.n);
    if (found == texts_.end()) throw RewriteError("the text of " + describe(self) + " uses " + describe(v.n) + ", which has none");
    const Text& t = found->second;
    return !bare && t.precedence < 16 && t.precedence <= precedence ? "(" + t.text + ")" : t.text;
  }

  // (value, modifier), or (sequence, modifier, separator).
  std::string field(Node* self, const Value& part, int precedence) {
    const Value& v = part.q.items[0];
    const bool bare = part.q.items[1].tag == Tag::Str && part.q.items[1].s->text == "bare";
    if (part.q.size == 2 || part.q.items[2].tag != Tag::Str) return field(self, v, bare, precedence);
    if (v.tag != Tag::Seq) throw RewriteError("the text of " + describe(self) + " joins " + show(v) + ", which is not a sequence");
    std::string s;
    for (uint32_t k = 0; k < v.q.size; k++) s += (k ? part.q.items[2].s->text : "") + field(self, v.q.items[k], bare, precedence);
    return s;
  }

  std::string join(Node* self, const Value& parts, int precedence) {
    std::string s;
    for (uint32_t k = 0; k < parts.q.size; k++) {
      const Value& p = parts.q.items[k];
      if (p.tag == Tag::Str) s += p.s->text;
      else if (p.tag == Tag::Seq && p.q.size >= 2) s += field(self, p, precedence);
    }
    return s;
  }

  // Whether n loads what a store may change before the value of n is used.
  bool is_overwritten(Node* n) const {
    return !overwritten_.empty() && std::find(overwritten_.begin(), overwritten_.end(), parameter_of(n)) != overwritten_.end();
  }

  void node(Node* n) {
    Value v;
    auto mark = machine_.arena.mark();
    int which = machine_.match(pass_.dispatch, n, nullptr, 0, v);
    if (which < 0) throw RewriteError("pass " + pass_.name->text + " has no rule for " + describe(n));
    if (v.tag != Tag::Seq || v.q.size != 4 || v.q.items[0].tag != Tag::Str || v.q.items[1].tag != Tag::Int || v.q.items[2].tag != Tag::Seq ||
        v.q.items[3].tag != Tag::Seq)
      throw RewriteError("rule " + program_.rules[pass_.dispatch.alternatives[which].rule].name->text + " does not give a text");
    const std::string& kind = v.q.items[0].s->text;
    if ((kind == "block") != (n->op == known_ops.RANGE))
      throw RewriteError("rule " + program_.rules[pass_.dispatch.alternatives[size_t(which)].rule].name->text + " on " + describe(n) +
                         ": a loop must be a block, and nothing else can be one");
    int precedence = int(v.q.items[1].i);
    std::string text = join(n, v.q.items[2], precedence);
    if (kind == "inline") {
      texts_[n] = {text, precedence};
    } else if (kind == "expr") {
      bool once = uses_[n] <= 1 && !deeper_[n] && text.size() <= kLongestInline && !is_overwritten(n);
      if (once) {
        texts_[n] = {text, precedence};
      } else {
        std::string name = name_of(n);
        line(filled(spelling(program_, "template.value", "const {type} {name} = {value};"),
                    {{"{type}", type_of(n)}, {"{name}", name}, {"{value}", text}}));
        texts_[n] = {name, 16};
      }
    } else {
      if (!text.empty()) line(text);
      auto named = names_.find(n);
      if (named != names_.end()) texts_[n] = {named->second, 16};
      if (kind == "block") {
        closing_.push_back(join(n, v.q.items[3], 0));
        indent_++;
      }
    }
    if (n->op == known_ops.PARAM && n->attrs->items[0].i == int64_t(n->attrs->items[0].i))
      out_.parameters.push_back({int64_t(n->attrs->items[0].i), {texts_[n].text, type_of(n)}});
    machine_.arena.reset(mark);
  }

  const Program& program_;
  const Pass& pass_;
  const std::vector<Line>& lines_;
  Machine machine_;
  std::map<Node*, int> depth_, uses_;
  std::map<Node*, bool> deeper_;
  std::vector<Node*> overwritten_;
  std::map<Node*, std::string> names_;
  std::map<std::string, int> counters_;
  std::map<Node*, Text> texts_;
  std::vector<std::string> closing_;
  int indent_ = 0;
  Rendered out_;
};

}  // namespace

Rendered render(const Program& program, const Pass& pass, const std::vector<Line>& lines) {
  if (pass.kind != PassKind::Render) throw RewriteError("pass " + pass.name->text + " is not a render pass");
  return Renderer(program, pass, lines).run();
}

}  // namespace rulegrad
