// Source text of a kernel: the rules give each node's text; names, parentheses and indentation are made here.
#include <algorithm>
#include <map>

#include "firing.hpp"

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
std::string filled(const std::string& text, const std::vector<std::pair<std::string_view, std::string_view>>& fields) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    auto field = text[at] != '{'
                     ? fields.end()
                     : std::find_if(fields.begin(), fields.end(), [&](auto& f) { return text.compare(at, f.first.size(), f.first) == 0; });
    if (field == fields.end()) result += text[at];
    else result += field->second;
    at += field == fields.end() ? 1 : field->first.size();
  }
  return result;
}

constexpr size_t kLongestInline = 160;  // longer expressions get a name, for the reader of the source

class Renderer {
 public:
  Renderer(const Program& program, const Pass& pass, const std::vector<Line>& lines)
      : program_(program), pass_(pass), lines_(lines), machine_(program) {
    index_->begin();
    written_.reserve(lines.size() + 1);
    int depth = 0;
    for (const Line& l : lines) {
      if (l.closes) {
        depth--;
        continue;
      }
      written(l.node).depth = depth;
      if (l.node->op == known_ops.RANGE) depth++;
    }
    std::vector<Node*> nodes;
    for (const Line& l : lines) nodes.push_back(l.node);
    overwritten_ = overwritten(nodes);
    for (const Line& l : lines) {
      if (l.closes) continue;
      const int here = written(l.node).depth;
      for (uint32_t k = 0; k < l.node->nsrc; k++) {
        Written& source = written(l.node->src[k]);
        source.uses++;
        source.deeper |= here != source.depth;
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
  struct Written {  // a node
    int depth = 0, uses = 0;
    bool deeper = false;  // used in another loop
    bool has_text = false;
    Text text;
    std::string name;
  };

  // All nodes of the lines are known when the first is written.
  Written& written(Node* n) {
    uint32_t& index = (*index_)[n];
    if (!index) {
      written_.emplace_back();
      index = uint32_t(written_.size());
    }
    return written_[index - 1];
  }

  void line(const std::string& text) {
    out_.body.append(size_t(indent_ + 1) * 2, ' ');
    out_.body += text;
    out_.body += '\n';
  }

  const std::string& name_of(Node* n) {
    std::string& name = written(n).name;
    if (!name.empty()) return name;
    std::string prefix = "alu";
    for (auto& [op, text] : pass_.prefixes)
      if (op == n->op) prefix = text->text;
    return name = prefix + std::to_string(counters_[prefix]++);
  }

  void set_text(Node* n, std::string text, int precedence) {
    Written& w = written(n);
    w.text = {std::move(text), precedence};
    w.has_text = true;
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
    if (n->op != known_ops.PARAM && n->op != known_ops.BUFFER && shape_of(n)->rank == 1)
      return spelling(program_, "template.vector", found->second->text);
    return found->second->text;
  }

  void field(std::string& s, Node* self, const Value& v, bool bare, int precedence) {
    if (v.tag == Tag::Str) {
      s += v.s->text;
    } else if (v.tag != Tag::Node) {
      s += show(v);
    } else if (v.n == self) {
      s += name_of(self);
    } else {
      const uint32_t* found = index_->find(v.n);
      if (!found || !written_[*found - 1].has_text)
        throw RewriteError("the text of " + describe(self) + " uses " + describe(v.n) + ", which has none");
      const Text& t = written_[*found - 1].text;
      const bool enclosed = !bare && t.precedence < 16 && t.precedence <= precedence;
      if (enclosed) s += '(';
      s += t.text;
      if (enclosed) s += ')';
    }
  }

  // (value, modifier), or (sequence, modifier, separator).
  void field(std::string& s, Node* self, const Value& part, int precedence) {
    const Value& v = part.q.items[0];
    const bool bare = part.q.items[1].tag == Tag::Str && part.q.items[1].s->text == "bare";
    if (part.q.size == 2 || part.q.items[2].tag != Tag::Str) return field(s, self, v, bare, precedence);
    if (v.tag != Tag::Seq) throw RewriteError("the text of " + describe(self) + " joins " + show(v) + ", which is not a sequence");
    for (uint32_t k = 0; k < v.q.size; k++) {
      if (k) s += part.q.items[2].s->text;
      field(s, self, v.q.items[k], bare, precedence);
    }
  }

  std::string join(Node* self, const Value& parts, int precedence) {
    std::string s;
    for (uint32_t k = 0; k < parts.q.size; k++) {
      const Value& p = parts.q.items[k];
      if (p.tag == Tag::Str) s += p.s->text;
      else if (p.tag == Tag::Seq && p.q.size >= 2) field(s, self, p, precedence);
    }
    return s;
  }

  // Whether n loads what a store may change before the value of n is used.
  bool is_overwritten(Node* n) const {
    return !overwritten_.empty() && std::find(overwritten_.begin(), overwritten_.end(), loaded_parameter(n)) != overwritten_.end();
  }

  void node(Node* n) {
    Value v;
    auto mark = machine_.arena.mark();
    int which = machine_.match(pass_.dispatch, n, nullptr, 0, v);
    if (which < 0)
      throw RewriteError("pass " + pass_.name->text + " has no rule for " + describe(n) +
                         ": add one that writes it, or a rule of an earlier pass that makes of it what the target has");
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
      set_text(n, std::move(text), precedence);
    } else if (kind == "expr") {
      const Written& w = written(n);
      if (w.uses <= 1 && !w.deeper && text.size() <= kLongestInline && !is_overwritten(n)) {
        set_text(n, std::move(text), precedence);
      } else {
        const std::string& name = name_of(n);
        line(filled(value_, {{"{type}", type_of(n)}, {"{name}", name}, {"{value}", text}}));
        set_text(n, name, 16);
      }
    } else {
      if (!text.empty()) line(text);
      if (const std::string& name = written(n).name; !name.empty()) set_text(n, name, 16);
      if (kind == "block") {
        closing_.push_back(join(n, v.q.items[3], 0));
        indent_++;
      }
    }
    if (n->op == known_ops.PARAM && n->attrs->items[0].i == int64_t(n->attrs->items[0].i))
      out_.parameters.push_back({int64_t(n->attrs->items[0].i), {written(n).text.text, type_of(n)}});
    machine_.arena.reset(mark);
  }

  const Program& program_;
  const Pass& pass_;
  const std::vector<Line>& lines_;
  Machine machine_;
  Lease<SideTable<uint32_t>> index_;  // of nodes, from 1
  std::vector<Written> written_;
  std::vector<Node*> overwritten_;
  const std::string value_ = spelling(program_, "template.value", "const {type} {name} = {value};");
  std::map<std::string, int> counters_;
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
