#include "named.hpp"

#include <algorithm>
#include <mutex>
#include <unordered_map>

namespace rulegrad {

namespace {

// An object with the attribute `_uop`. It is in the list of its node, unless that has no sources: a buffer or a constant is there
// already. All of this is done under the GIL.
struct Holder {
  PyObject_HEAD PyObject* uop;
  PyObject* self;  // a weak reference: it is cleared before the object is taken apart
  Node* node;      // in whose list it is, or null
  Holder *next, *previous;
};

// None of these is ever destroyed: nodes may be, when the process ends.
auto& g_holders = *new std::unordered_map<Node*, Holder*>;    // the first of each list
auto& g_mutex = *new std::mutex;                              // of what follows
auto& g_buffers = *new std::unordered_map<Node*, PyObject*>;  // weak references
auto& g_forgotten = *new std::vector<PyObject*>;              // references to give back with the GIL

void unlink(Holder* h) {
  if (!h->node) return;
  if (h->next) h->next->previous = h->previous;
  if (h->previous) h->previous->next = h->next;
  else if (h->next) g_holders[h->node] = h->next;
  else {
    g_holders.erase(h->node);
    h->node->facts.fetch_and(uint8_t(~kNamed), std::memory_order_relaxed);
  }
  h->node = nullptr;
  h->next = h->previous = nullptr;
}

// False with an error set when there can be no weak reference.
bool link(Holder* h, Node* n) {
  if (!h->self && !(h->self = PyWeakref_NewRef(reinterpret_cast<PyObject*>(h), nullptr))) return false;
  Holder*& first = g_holders[n];
  if ((h->next = first)) first->previous = h;
  first = h;
  h->node = n;
  n->facts.fetch_or(kNamed, std::memory_order_relaxed);
  return true;
}

void dealloc(PyObject* self) {
  auto* h = reinterpret_cast<Holder*>(self);
  PyTypeObject* type = Py_TYPE(self);
  unlink(h);
  Py_CLEAR(h->uop);
  Py_CLEAR(h->self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* get_uop(PyObject* self, void*) {
  PyObject* found = reinterpret_cast<Holder*>(self)->uop;
  if (!found) PyErr_SetString(PyExc_AttributeError, "_uop");
  return Py_XNewRef(found);
}

int set_uop(PyObject* self, PyObject* value, void*) {
  auto* h = reinterpret_cast<Holder*>(self);
  unlink(h);
  Py_XSETREF(h->uop, Py_XNewRef(value));
  Handle* found;
  if (!value || !nb::try_cast<Handle*>(nb::handle(value), found, false) || !found || !found->ref.n->nsrc) return 0;
  return link(h, found->ref.n) ? 0 : -1;
}

PyGetSetDef properties[] = {{"_uop", get_uop, set_uop, "The node that the object stands for.", nullptr}, {}};
PyType_Slot slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {Py_tp_getset, properties},
    {Py_tp_doc, const_cast<char*>("Objects that stand for a node, `_uop`: the engine finds them by it.")},
    {0, nullptr},
};
PyType_Spec spec = {"rulegrad._core.NodeHolder", sizeof(Holder), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

// The live buffer with the value of n; null when there is none, or others may have written into it.
nb::object buffer_of(Node* n) {
  nb::object buffer;
  if (!(n->facts.load(std::memory_order_relaxed) & kStored)) return buffer;
  {
    std::lock_guard<std::mutex> hold(g_mutex);
    auto found = g_buffers.find(n);
    if (found != g_buffers.end()) buffer = nb::borrow(PyWeakref_GetObject(found->second));
  }
  if (!buffer.is_valid() || buffer.is_none() || nb::cast<bool>(buffer.attr("is_lent"))) return {};
  return buffer;
}

// Whether a buffer is read below n.
bool reads_buffer(Node* n) {
  static thread_local SideTable<uint8_t> seen;
  seen.begin();
  std::vector<Node*> stack{n};
  while (!stack.empty()) {
    Node* next = stack.back();
    stack.pop_back();
    if (next->op == known_ops.BUFFER) return true;
    for (uint32_t k = 0; k < next->nsrc; k++) {
      if (seen.has(next->src[k])) continue;
      seen[next->src[k]] = 1;
      stack.push_back(next->src[k]);
    }
  }
  return false;
}

// n on other sources.
Ref rebuilt(Node* n, const std::vector<Ref>& results, SideTable<uint32_t>& places) {
  std::vector<Node*> sources;
  bool same = true;
  for (uint32_t k = 0; k < n->nsrc; k++) {
    sources.push_back(results[*places.find(n->src[k])].n);
    same = same && sources.back() == n->src[k];
  }
  if (same) return Ref::share(n);
  return Ref(make_node(n->op, n->dtype, sources.data(), n->nsrc, n->attrs ? n->attrs->items : nullptr, n->attrs ? n->attrs->size : 0));
}

}  // namespace

PyObject* node_holder() { return PyType_FromSpec(&spec); }

nb::list holders_of(Node* n) {
  nb::list found;
  for (Holder* h = g_holders.at(n); h; h = h->next) {
    PyObject* object = PyWeakref_GetObject(h->self);
    if (object != Py_None) found.append(nb::borrow(object));
  }
  return found;
}

nb::list holders_of_graphs() {
  nb::list found;
  for (auto& [node, first] : g_holders)
    for (nb::handle holder : holders_of(node)) found.append(holder);
  return found;
}

PyObject* uop_of(PyObject* holder) { return reinterpret_cast<Holder*>(holder)->uop; }

void set_uop_of(PyObject* holder, nb::handle uop) {
  if (set_uop(holder, uop.ptr(), nullptr) < 0) throw nb::python_error();
}

bool stands_alone(PyObject* holder) {
  auto* h = reinterpret_cast<Holder*>(holder);
  return !h->next && !h->previous;
}

void remember(const Handle& node, nb::handle buffer) {
  if (!reads_buffer(node.ref.n)) return;  // plans hold such nodes, whoever else does
  PyObject* reference = PyWeakref_NewRef(buffer.ptr(), nullptr);
  if (!reference) throw nb::python_error();
  std::vector<PyObject*> old;
  {
    std::lock_guard<std::mutex> hold(g_mutex);
    old.swap(g_forgotten);
    PyObject*& place = g_buffers[node.ref.n];
    if (place) old.push_back(place);
    place = reference;
    node.ref.n->facts.fetch_or(kStored, std::memory_order_relaxed);
  }
  for (PyObject* r : old) Py_DECREF(r);
}

void forget(Node* n) {
  std::lock_guard<std::mutex> hold(g_mutex);
  auto found = g_buffers.find(n);
  if (found == g_buffers.end()) return;
  g_forgotten.push_back(found->second);
  g_buffers.erase(found);
}

std::vector<bool> are_above(const std::vector<Handle>& roots, const std::vector<Handle>& nodes) {
  static thread_local SideTable<uint8_t> above;
  std::vector<Node*> all;
  for (const Handle& root : roots) all.push_back(root.ref.n);
  above.begin();
  for (const Handle& node : nodes) above[node.ref.n] = 1;
  for (Node* n : toposort(all)) {
    if (above.has(n)) continue;
    uint8_t is = 0;
    for (uint32_t k = 0; k < n->nsrc; k++) is |= above[n->src[k]];
    above[n] = is;
  }
  std::vector<bool> found;
  for (Node* root : all) found.push_back(above[root] != 0);
  return found;
}

// Whether n is the largest or the smallest of its sources' elements: what gradients compare these with.
static bool is_extreme(Node* n) {
  static const uint32_t kinds[] = {uint32_t(find_op("REDUCE")), uint32_t(find_op("SCATTER")), uint32_t(find_op("SCAN"))};
  static const uint32_t largest = uint32_t(find_op("MAX")), smallest = uint32_t(find_op("MIN"));
  if (std::find(std::begin(kinds), std::end(kinds), n->op) == std::end(kinds)) return false;
  for (uint32_t k = 0; k < (n->attrs ? n->attrs->size : 0); k++) {
    const Value& v = n->attrs->items[k];
    if (v.tag == Tag::Op && (v.u == largest || v.u == smallest)) return true;
  }
  return false;
}

// As `resolved`; `again`: extremes that are computed although they are in buffers.
static nb::tuple resolved_but(const std::vector<Handle>& roots, std::vector<Node*>& again) {
  static thread_local SideTable<uint32_t> places;
  static const uint32_t named = uint32_t(find_op("NAMED"));
  std::vector<std::pair<Node*, uint32_t>> stack;
  std::vector<Ref> results, marked;
  std::vector<Node*> extremes;
  nb::list buffers, found;
  places.begin();
  auto finish = [&](Node* n, Ref result, Ref mark) {
    places[n] = uint32_t(results.size());
    results.push_back(std::move(result));
    marked.push_back(std::move(mark));
  };
  auto begin = [&](Node* n) {
    if (places.has(n)) return;
    nb::object buffer = buffer_of(n);
    if (buffer.is_valid() && is_extreme(n)) {
      if (std::find(again.begin(), again.end(), n) != again.end()) buffer = nb::object();
      else extremes.push_back(n);
    }
    if (!buffer.is_valid()) return stack.emplace_back(n, 0), void();
    buffers.append(buffer);
    Ref leaf = nb::cast<Handle&>(buffer.attr("uop")).ref;
    finish(n, leaf, leaf);
  };
  for (const Handle& root : roots) {
    begin(root.ref.n);
    while (!stack.empty()) {
      auto& [n, next] = stack.back();
      if (next < n->nsrc) {
        begin(n->src[next++]);
        continue;
      }
      Node* done = n;
      stack.pop_back();
      if (places.has(done)) continue;
      Ref result = rebuilt(done, results, places), mark = rebuilt(done, marked, places);
      if (done->facts.load(std::memory_order_relaxed) & kNamed) {
        Node* inner = mark.n;
        found.append(nb::make_tuple(Handle{result}, Handle{mark}, holders_of(done)));
        const Value if_small = Value::boolean(false);
        mark = Ref(build_node(named, -1, &inner, 1, &if_small, 1));
      }
      finish(done, std::move(result), std::move(mark));
    }
  }
  // A kernel that computes the elements again may round them otherwise than the one that the extreme was found in did: none
  // would be equal to it. So it is found again, too, unless they are in memory.
  const size_t before = again.size();
  for (Node* n : extremes)
    for (uint32_t k = 0; k < n->nsrc; k++)
      if (const uint32_t* place = places.find(n->src[k]); place && n->src[k]->dtype == n->dtype && results[*place].n->nsrc) {
        again.push_back(n);
        break;
      }
  if (again.size() > before) return resolved_but(roots, again);
  nb::list graphs;
  for (const Handle& root : roots) graphs.append(Handle{results[*places.find(root.ref.n)]});
  return nb::make_tuple(graphs, buffers, found);
}

nb::tuple resolved(const std::vector<Handle>& roots) {
  std::vector<Node*> again;
  return resolved_but(roots, again);
}

}  // namespace rulegrad
