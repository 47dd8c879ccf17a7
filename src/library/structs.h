// Reading and writing the structs of the C interface, which begin with their size: those of earlier releases end earlier.
#pragma once

#include <cstddef>
#include <cstring>

#include "library/errors.h"

namespace paceline::library {

// `least`: the size before the first field that was appended. None of an earlier release ends inside a field.
template <typename Struct>
Status check_size(const Struct* given, const char* name, std::size_t least = sizeof(Struct)) {
  PACELINE_RETURN_IF_ERROR(check_given(given, name));
  if (given->size >= least && given->size <= sizeof(Struct) && given->size % alignof(Struct) == 0) return {};
  return refusal(kStruct, name, "the size of the {} is {}; legal: {}; set it to its sizeof, of this library's header", name,
                 given->size, least == sizeof(Struct) ? fmt::format("{}", least) : fmt::format("{} to {}", least, sizeof(Struct)));
}

// What the caller knows of; the rest is 0.
template <typename Struct>
Result<Struct> read_struct(const Struct* given, const char* name, std::size_t least = sizeof(Struct)) {
  PACELINE_RETURN_IF_ERROR(check_size(given, name, least));
  Struct known{};
  std::memcpy(&known, given, given->size);
  return known;
}

inline Result<paceline_place> read_place(const paceline_place* given) {
  return read_struct(given, "place", offsetof(paceline_place, job_key_file));
}

// Fills what the caller knows of.
template <typename Struct>
void write_struct(Struct value, Struct* to) {
  value.size = to->size;
  std::memcpy(to, &value, to->size);
}

// 0: there is none of this name.
std::size_t struct_size(const char* name);

}  // namespace paceline::library
