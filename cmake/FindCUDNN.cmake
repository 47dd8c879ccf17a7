# cuDNN 9: CUDNN_FOUND, CUDNN_VERSION, target CUDNN::cudnn. PACELINE_CUDNN names its folder (the one with include/ and lib/) and is then the only
# one looked at; otherwise CMAKE_PREFIX_PATH, the CUDA toolkit, the system's folders and PyPI's wheel in .venv (scripts/setup cuda) are, in this order.
set(PACELINE_CUDNN "" CACHE PATH "Folder of cuDNN 9, with include/ and lib/; empty: looked for")
if(PACELINE_CUDNN)
  set(_cudnn_where HINTS ${PACELINE_CUDNN} NO_DEFAULT_PATH)
else()
  file(GLOB _cudnn_in_venv ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/cudnn)
  set(_cudnn_where PATHS ${CUDAToolkit_TARGET_DIR} ${CUDAToolkit_LIBRARY_ROOT} ${_cudnn_in_venv})
endif()
# Not kept in the cache: what was installed since, or another PACELINE_CUDNN, counts.
find_path(CUDNN_INCLUDE_DIR cudnn_version.h ${_cudnn_where} PATH_SUFFIXES include NO_CACHE)
# The wheel has no name without the version.
find_library(CUDNN_LIBRARY NAMES libcudnn.so.9 ${_cudnn_where} PATH_SUFFIXES lib lib64 NO_CACHE)

set(CUDNN_VERSION "")
if(CUDNN_INCLUDE_DIR)
  file(STRINGS ${CUDNN_INCLUDE_DIR}/cudnn_version.h _cudnn_numbers REGEX "^#define CUDNN_(MAJOR|MINOR|PATCHLEVEL) [0-9]+")
  string(REGEX REPLACE "[^0-9;]" "" _cudnn_numbers "${_cudnn_numbers}")
  list(JOIN _cudnn_numbers "." CUDNN_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CUDNN REQUIRED_VARS CUDNN_LIBRARY CUDNN_INCLUDE_DIR VERSION_VAR CUDNN_VERSION)
if(CUDNN_FOUND AND NOT TARGET CUDNN::cudnn)
  add_library(CUDNN::cudnn SHARED IMPORTED)
  set_target_properties(CUDNN::cudnn PROPERTIES IMPORTED_LOCATION ${CUDNN_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${CUDNN_INCLUDE_DIR})
endif()
