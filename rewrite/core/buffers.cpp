#include "buffers.hpp"

#include <structmember.h>

#include <cstddef>

#include "signature.hpp"

namespace rulegrad {

namespace {

PyTypeObject* g_type = nullptr;  // Python's Buffer
PyObject* g_numbers = nullptr;   // an iterator

constexpr int kFields = 12;
PyObject** fields_of(BufferBase* s) { return &s->id; }

bool is_ending() {
#if PY_VERSION_HEX >= 0x030d0000
  return Py_IsFinalizing();
#else
  return _Py_IsFinalizing();
#endif
}

// Puts a pending exception aside while something is freed, and back afterwards.
class KeepsError {
 public:
  KeepsError() { PyErr_Fetch(&type_, &value_, &trace_); }
  ~KeepsError() { PyErr_Restore(type_, value_, trace_); }
  KeepsError(const KeepsError&) = delete;

 private:
  PyObject *type_, *value_, *trace_;
};

void dealloc(PyObject* self) {
  auto* s = reinterpret_cast<BufferBase*>(self);
  PyTypeObject* type = Py_TYPE(self);
  {
    KeepsError keeps;
    if (s->id && PyDict_DelItem(live_buffers().ptr(), s->id) < 0) PyErr_Clear();
    if (s->handle && s->handle != Py_None && s->borrowed != Py_True && s->device && s->nbytes && !is_ending()) {
      try {
        give_back(s->device, nb::borrow(s->handle), PyLong_AsLongLong(s->nbytes));
      } catch (nb::python_error& error) { error.discard_as_unraisable("the memory of a buffer"); }
    }
    for (int k = 0; k < kFields; k++) Py_CLEAR(fields_of(s)[k]);
  }
  type->tp_free(self);
  Py_DECREF(type);
}

PyMemberDef members[] = {
    {"id", T_OBJECT_EX, offsetof(BufferBase, id), 0, nullptr},
    {"_handle", T_OBJECT_EX, offsetof(BufferBase, handle), 0, nullptr},
    {"_borrowed", T_OBJECT_EX, offsetof(BufferBase, borrowed), 0, nullptr},
    {"_owner", T_OBJECT_EX, offsetof(BufferBase, owner), 0, nullptr},
    {"is_lent", T_OBJECT_EX, offsetof(BufferBase, is_lent), 0, nullptr},
    {"_uop", T_OBJECT_EX, offsetof(BufferBase, uop), 0, nullptr},
    {"checks", T_OBJECT_EX, offsetof(BufferBase, checks), 0, nullptr},
    {"shape", T_OBJECT_EX, offsetof(BufferBase, shape), 0, nullptr},
    {"dtype", T_OBJECT_EX, offsetof(BufferBase, dtype), 0, nullptr},
    {"device", T_OBJECT_EX, offsetof(BufferBase, device), 0, nullptr},
    {"nbytes", T_OBJECT_EX, offsetof(BufferBase, nbytes), 0, nullptr},
    {"made_at", T_OBJECT_EX, offsetof(BufferBase, made_at), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
static_assert(offsetof(BufferBase, made_at) == offsetof(BufferBase, id) + (kFields - 1) * sizeof(PyObject*));

PyType_Slot slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {Py_tp_members, members},
    {Py_tp_doc, const_cast<char*>("The fields of a buffer, and what happens to its memory when nobody holds it any more.")},
    {0, nullptr},
};
PyType_Spec spec = {"rulegrad._core.BufferBase", sizeof(BufferBase), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

Blocks* blocks_of(nb::handle device) {
  PyObject* found = PyDict_GetItem(allocators().ptr(), device.ptr());
  return found ? nb::inst_ptr<Blocks>(found) : nullptr;
}

}  // namespace

nb::object Blocks::take(int64_t nbytes) {
  auto found = sizes_.find(rounded(nbytes));
  if (found == sizes_.end() || found->second.handles.empty()) return {};
  nb::object handle = std::move(found->second.handles.back());
  found->second.handles.pop_back();
  waiting -= found->first;
  count(nbytes);
  return handle;
}

void Blocks::count(int64_t nbytes) {
  in_use += rounded(nbytes);
  most_in_use = std::max(most_in_use, in_use);
}

void Blocks::give(nb::object handle, int64_t nbytes) {
  const int64_t size = rounded(nbytes);
  in_use -= size;
  waiting += size;
  Size& of = sizes_[size];
  of.handles.push_back(std::move(handle));
  of.freed = ++clock_;
}

nb::object Blocks::oldest() {
  auto found = sizes_.end();
  for (auto at = sizes_.begin(); at != sizes_.end(); ++at)
    if (!at->second.handles.empty() && (found == sizes_.end() || at->second.freed < found->second.freed)) found = at;
  if (found == sizes_.end()) return {};
  std::vector<nb::object>& handles = found->second.handles;
  nb::object handle = std::move(handles.front());
  handles.erase(handles.begin());
  waiting -= found->first;
  if (handles.empty()) sizes_.erase(found);
  return handle;
}

nb::dict live_buffers() {
  static PyObject* all = PyDict_New();  // never destroyed: buffers may be when the process ends
  return nb::borrow<nb::dict>(all);
}

nb::dict allocators() {
  static PyObject* all = PyDict_New();
  return nb::borrow<nb::dict>(all);
}

BufferBase* live_buffer(int64_t number) {
  nb::object key = nb::steal(PyLong_FromLongLong(number));
  PyObject* reference = PyDict_GetItem(live_buffers().ptr(), key.ptr());
  PyObject* found = reference ? PyWeakref_GetObject(reference) : Py_None;
  return found == Py_None ? nullptr : reinterpret_cast<BufferBase*>(found);
}

nb::object allocated(nb::handle device, int64_t nbytes) {
  nb::object allocator = nb::borrow(PyDict_GetItem(allocators().ptr(), device.ptr()));
  if (!allocator.is_valid()) throw nb::key_error("the device has no allocator");
  nb::object handle = nb::inst_ptr<Blocks>(allocator)->take(nbytes);
  return handle.is_valid() ? handle : allocator.attr("allocate")(nbytes);
}

void give_back(nb::handle device, nb::object handle, int64_t nbytes) {
  Blocks* blocks = blocks_of(device);
  if (!blocks) return;  // memory that a test's device gave
  blocks->give(std::move(handle), nbytes);
  if (blocks->waiting > blocks->most_kept) nb::borrow(PyDict_GetItem(allocators().ptr(), device.ptr())).attr("shrink")();
}

BufferLayout::BufferLayout(nb::handle layout)
    : shape(layout[0]), dtype(layout[1]), device(layout[2]), nbytes(layout[3]), uop(layout[4]), bytes(nb::cast<int64_t>(nbytes)) {}

nb::object new_buffer(const BufferLayout& layout, bool has_memory, nb::handle made_at) {
  nb::object handle;
  if (Blocks* blocks = has_memory ? blocks_of(layout.device) : nullptr) handle = blocks->take(layout.bytes);
  const bool is_fresh = has_memory && !handle.is_valid();
  if (!handle.is_valid()) handle = nb::none();
  nb::object id = nb::steal(PyIter_Next(g_numbers)), made = nb::steal(g_type->tp_alloc(g_type, 0));
  if (!id.is_valid() || !made.is_valid()) throw nb::python_error();
  nb::object uop = renumbered(*nb::inst_ptr<Handle>(layout.uop), PyLong_AsLongLong(id.ptr()));
  auto* b = reinterpret_cast<BufferBase*>(made.ptr());
  b->handle = handle.release().ptr(), b->borrowed = Py_NewRef(Py_False), b->owner = Py_NewRef(Py_None);
  b->is_lent = Py_NewRef(Py_False), b->uop = uop.release().ptr(), b->checks = PyTuple_New(0);
  b->shape = Py_NewRef(layout.shape.ptr()), b->dtype = Py_NewRef(layout.dtype.ptr()), b->device = Py_NewRef(layout.device.ptr());
  b->nbytes = Py_NewRef(layout.nbytes.ptr()), b->made_at = Py_NewRef(made_at.ptr()), b->id = Py_NewRef(id.ptr());
  nb::object weak = nb::steal(PyWeakref_NewRef(made.ptr(), nullptr));
  if (!weak.is_valid() || PyDict_SetItem(live_buffers().ptr(), id.ptr(), weak.ptr()) < 0) throw nb::python_error();
  if (is_fresh) (void)nb::object(made.attr("handle"));  // the property asks the device, and says what for where there is none
  return made;
}

void define_buffers(nb::module_& m) {
  m.attr("BufferBase") = nb::steal(PyType_FromSpec(&spec));
  m.def(
      "connect_buffers",
      [](nb::type_object type, nb::object numbers) {
        g_type = reinterpret_cast<PyTypeObject*>(type.release().ptr());
        g_numbers = numbers.release().ptr();
      },
      nb::arg("buffer"), nb::arg("numbers"), "The class of buffers from now on, and the numbers of new ones.");
  m.def(
      "new_buffer", [](nb::handle layout, bool has_memory, nb::handle made_at) { return new_buffer(BufferLayout(layout), has_memory, made_at); },
      nb::arg("layout"), nb::arg("has_memory"), nb::arg("made_at").none(), "A new buffer of a layout.");
  m.attr("live_buffers") = live_buffers();
  m.attr("allocators") = allocators();
  auto or_none = [](nb::object found) { return found.is_valid() ? found : nb::none(); };
  nb::class_<Blocks>(m, "Blocks", "Blocks of memory that wait for reuse, by size.")
      .def(nb::init<>())
      .def(
          "take", [or_none](Blocks& b, int64_t nbytes) { return or_none(b.take(nbytes)); }, nb::arg("nbytes"))
      .def("give", &Blocks::give, nb::arg("handle"), nb::arg("nbytes"))
      .def("count", &Blocks::count, nb::arg("nbytes"))
      .def("oldest", [or_none](Blocks& b) { return or_none(b.oldest()); })
      .def_rw("in_use", &Blocks::in_use)
      .def_rw("most_in_use", &Blocks::most_in_use)
      .def_rw("waiting", &Blocks::waiting)
      .def_rw("most_kept", &Blocks::most_kept);
}

}  // namespace rulegrad
