// The buffer protocol for classes written in Python. From Python 3.12 on a method `__buffer__` is enough (PEP 688); before, only a
// type written in C can have it.
#include "buffer_provider.hpp"

namespace rulegrad {

namespace {

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  PyObject* exported = PyObject_CallMethod(self, "__buffer__", "i", flags);
  if (!exported) return -1;
  const int status = PyObject_GetBuffer(exported, view, flags);
  Py_DECREF(exported);
  return status;
}

PyType_Slot slots[] = {
    {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
    {Py_tp_doc, const_cast<char*>("Objects whose method `__buffer__(flags)` gives a memoryview have the buffer protocol.")},
    {0, nullptr},
};
PyType_Spec spec = {"rulegrad._core.BufferProvider", 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

}  // namespace

PyObject* buffer_provider() { return PyType_FromSpec(&spec); }

}  // namespace rulegrad
