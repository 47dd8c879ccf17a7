# find_package(paceline) gives paceline::torch: Paceline for programs that use LibTorch. Needs PyTorch's CMake files on CMAKE_PREFIX_PATH
# (`python -c 'import torch; print(torch.utils.cmake_prefix_path)'`).
include(CMakeFindDependencyMacro)
find_dependency(Torch 2.13)
include(${CMAKE_CURRENT_LIST_DIR}/paceline-targets.cmake)
set_property(TARGET paceline::torch APPEND PROPERTY INTERFACE_LINK_LIBRARIES ${TORCH_LIBRARIES})
set_property(TARGET paceline::torch APPEND PROPERTY INTERFACE_COMPILE_FEATURES cxx_std_20)
