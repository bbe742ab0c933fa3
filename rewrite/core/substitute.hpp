// A graph with some of its nodes replaced.
#pragma once
#include "firing.hpp"

namespace rulegrad {

// Never recursive; what is replaced is not looked into, nor what has no op below that is replaced.
class Substitution {
 public:
  explicit Substitution(Machine& m) : machine_(m) {
    room_->done.begin();
    room_->stack.clear();
    room_->results.clear();
  }

  // Puts a node in the place of another. Of two for one node the first counts.
  void put(Node* n, Node* by) {
    Node*& known = room_->done[n];
    if (!known) known = by;
    ops_.add(n->op);
  }
  // Nodes that have an op are replaced by what `replace` gives when they are met, unless that is null.
  void ask_at(uint32_t op) {
    ops_.add(op);
    asked_.add(op);
  }
  void ask_at(const OpMask& ops) {
    ops_.add(ops);
    asked_.add(ops);
  }

  template <typename Replace>
  Node* made_of(Node* root, Replace replace) {
    auto& [done, stack, results] = *room_;
    auto visit = [&](Node* n) {
      if (!n->ops.meets(ops_)) return results.push_back(n);
      Node* by = done[n];
      if (!by && asked_.has(n->op)) by = replace(n);
      if (!by && n->nsrc == 0) by = n;
      if (!by) return stack.push_back({n, 0});
      done[n] = by;
      results.push_back(by);
    };
    visit(root);
    while (!stack.empty()) {
      auto& [n, next] = stack.back();
      if (next < n->nsrc) {
        visit(n->src[next++]);
        continue;
      }
      machine_.spend(1 + n->nsrc);
      Node* const* sources = results.data() + results.size() - n->nsrc;
      Node* made = n;
      if (!std::equal(sources, sources + n->nsrc, n->src)) made = machine_.keep(with_sources(n, sources));
      results.resize(results.size() - n->nsrc);
      results.push_back(made);
      done[n] = made;
      stack.pop_back();
    }
    return results.back();
  }
  Node* made_of(Node* root) {
    return made_of(root, [](Node*) -> Node* { return nullptr; });
  }

 private:
  struct Frame {
    Node* node;
    uint32_t next;  // source to visit
  };
  struct Room {
    SideTable<Node*> done;
    std::vector<Frame> stack;
    std::vector<Node*> results;  // of the sources that were visited, of all nodes on the stack
  };
  Machine& machine_;
  Lease<Room> room_;
  OpMask ops_, asked_;
};

}  // namespace rulegrad
