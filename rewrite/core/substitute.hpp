// A graph with some of its nodes replaced.
#pragma once
#include "firing.hpp"

namespace rulegrad {

// `replace` gives what takes a node's place, or null. From the top: what is replaced is not looked into. Never recursive.
template <typename Replace>
Node* substituted(Machine& m, Node* root, Replace replace) {
  Lease<SideTable<Node*>> done;
  done->begin();
  std::vector<Node*> stack{root}, sources;
  while (!stack.empty()) {
    Node* n = stack.back();
    if ((*done)[n]) {
      stack.pop_back();
      continue;
    }
    if (Node* by = replace(n)) {
      (*done)[n] = by;
      stack.pop_back();
      continue;
    }
    bool ready = true;
    for (uint32_t k = n->nsrc; k--;)
      if (!(*done)[n->src[k]]) {
        stack.push_back(n->src[k]);
        ready = false;
      }
    if (!ready) continue;
    stack.pop_back();
    m.spend(1 + n->nsrc);
    sources.assign(n->src, n->src + n->nsrc);
    for (auto& s : sources) s = (*done)[s];
    (*done)[n] =
        std::equal(sources.begin(), sources.end(), n->src)
            ? n
            : m.keep(make_node(n->op, n->dtype, sources.data(), n->nsrc, n->attrs ? n->attrs->items : nullptr, n->attrs ? n->attrs->size : 0));
  }
  return (*done)[root];
}

}  // namespace rulegrad
