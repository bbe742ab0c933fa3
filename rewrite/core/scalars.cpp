#include "scalars.hpp"

#include <cstring>
#include <vector>

#include "signature.hpp"

namespace rulegrad {

namespace {

int64_t raveled(const std::vector<int64_t>& index, const Shape* shape) {
  int64_t place = 0;
  for (uint32_t k = 0; k < shape->rank; k++) place = place * shape->dims[k] + index[k];
  return place;
}

std::vector<int64_t> unraveled(int64_t place, const Shape* shape) {
  std::vector<int64_t> index(shape->rank);
  for (uint32_t k = shape->rank; k-- > 0;) {
    index[k] = place % shape->dims[k];
    place /= shape->dims[k];
  }
  return index;
}

template <class T>
T read(const void* memory, int64_t place) {
  T found;
  std::memcpy(&found, static_cast<const char*>(memory) + place * int64_t(sizeof found), sizeof found);
  return found;
}

// An element of one of these types, the one of so many bits.
template <class Of8, class Of16, class Of32, class Of64>
nb::object integer_at(const void* memory, int bits, int64_t place) {
  switch (bits) {
    case 8: return nb::int_(read<Of8>(memory, place));
    case 16: return nb::int_(read<Of16>(memory, place));
    case 32: return nb::int_(read<Of32>(memory, place));
    case 64: return nb::int_(read<Of64>(memory, place));
  }
  return {};
}

}  // namespace

std::optional<Element> element_of(Node* n) {
  static const int reshape = find_op("RESHAPE"), shrink = find_op("SHRINK");
  static const size_t begin = attribute_of(uint32_t(shrink), "begin");
  if (element_count(shape_of(n)) != 1) return {};
  std::vector<int64_t> index(shape_of(n)->rank);
  for (; n->op != known_ops.BUFFER; n = n->src[0]) {
    if (int(n->op) == reshape) {
      index = unraveled(raveled(index, shape_of(n)), shape_of(n->src[0]));
    } else if (int(n->op) == shrink) {
      for (size_t k = 0; k < index.size(); k++) index[k] += n->attrs->items[begin].q.items[k].i;
    } else {
      return {};
    }
  }
  if (is_in_parts(n)) return {};
  return Element{n, raveled(index, shape_of(n))};
}

nb::object number_at(const void* memory, uint32_t dtype, int64_t place) {
  const DtypeInfo& info = dtype_info(dtype);
  switch (info.kind) {
    case Kind::Bool: return nb::bool_(read<uint8_t>(memory, place) != 0);
    case Kind::Int: return integer_at<int8_t, int16_t, int32_t, int64_t>(memory, info.bits, place);
    case Kind::Uint: return integer_at<uint8_t, uint16_t, uint32_t, uint64_t>(memory, info.bits, place);
    case Kind::Float:
      if (info.bits == 32) return nb::float_(double(read<float>(memory, place)));
      if (info.bits == 64) return nb::float_(read<double>(memory, place));
      return {};
    default: return {};
  }
}

}  // namespace rulegrad
