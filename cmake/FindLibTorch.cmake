# Finds LibTorch in a package of PyTorch, whichever build pip gave, or in a LibTorch of its own, and gives the target LibTorch::LibTorch.
# PyTorch's own TorchConfig.cmake asks for a whole CUDA toolkit where the package was built with CUDA; nothing here needs one. So only
# what computes on processors is linked: libtorch_cpu and libc10. CUDA's libraries are not loaded, though they be in the package.
#
# CMAKE_PREFIX_PATH names it: the folder that torch.utils.cmake_prefix_path gives, or the one that holds `include` and `lib`.
# Sets LibTorch_VERSION (as 2.13.0) and LibTorch_LIBRARY_DIR.
find_path(LibTorch_INCLUDE_DIR torch/csrc/api/include/torch/torch.h PATH_SUFFIXES ../../include)
mark_as_advanced(LibTorch_INCLUDE_DIR)
unset(LibTorch_LIBRARY_DIR)
unset(LibTorch_VERSION)
if(LibTorch_INCLUDE_DIR)
  get_filename_component(LibTorch_INCLUDE_DIR "${LibTorch_INCLUDE_DIR}" ABSOLUTE)
  get_filename_component(torch_libraries "${LibTorch_INCLUDE_DIR}/../lib" ABSOLUTE)
  if(EXISTS "${torch_libraries}/libtorch_cpu.so" AND EXISTS "${torch_libraries}/libc10.so")
    set(LibTorch_LIBRARY_DIR "${torch_libraries}")
  endif()
  # Newer ones have it in the first file.
  foreach(file torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
    if(NOT LibTorch_VERSION AND EXISTS "${LibTorch_INCLUDE_DIR}/${file}")
      file(STRINGS "${LibTorch_INCLUDE_DIR}/${file}" torch_numbers REGEX "^#define TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]+")
      list(TRANSFORM torch_numbers REPLACE "^#define TORCH_VERSION_[A-Z]+ ([0-9]+).*" "\\1")
      list(JOIN torch_numbers "." LibTorch_VERSION)
    endif()
  endforeach()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch REQUIRED_VARS LibTorch_LIBRARY_DIR LibTorch_INCLUDE_DIR VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "add to CMAKE_PREFIX_PATH what torch.utils.cmake_prefix_path is in a Python that has PyTorch 2.13 or newer")

if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  add_library(LibTorch::LibTorch INTERFACE IMPORTED)
  # All packages of Linux are built with these, and some classes have other members without.
  set_target_properties(LibTorch::LibTorch PROPERTIES
    INTERFACE_COMPILE_DEFINITIONS "USE_DISTRIBUTED;USE_C10D_GLOO;USE_RPC;USE_TENSORPIPE"
    INTERFACE_INCLUDE_DIRECTORIES "${LibTorch_INCLUDE_DIR};${LibTorch_INCLUDE_DIR}/torch/csrc/api/include"
    INTERFACE_LINK_LIBRARIES "${LibTorch_LIBRARY_DIR}/libtorch_cpu.so;${LibTorch_LIBRARY_DIR}/libc10.so")
endif()
