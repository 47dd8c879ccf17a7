# find_package(paceline COMPONENTS paceline) and COMPONENTS collectives give paceline::paceline, the C interface, and paceline::collectives. They need
# nothing else.
# find_package(paceline) and COMPONENTS torch give paceline::torch too: Paceline for programs that use LibTorch. That needs PyTorch on
# CMAKE_PREFIX_PATH (`python -c 'import torch; print(torch.utils.cmake_prefix_path)'`); any build of it will do (FindLibTorch.cmake).
include(CMakeFindDependencyMacro)
include(${CMAKE_CURRENT_LIST_DIR}/paceline-libraries-targets.cmake)
set(paceline_paceline_FOUND TRUE)
set(paceline_collectives_FOUND TRUE)
if(NOT paceline_FIND_COMPONENTS OR "torch" IN_LIST paceline_FIND_COMPONENTS)
  if(NOT EXISTS ${CMAKE_CURRENT_LIST_DIR}/paceline-targets.cmake)
    set(paceline_FOUND FALSE)
    set(paceline_NOT_FOUND_MESSAGE "this Paceline was built without its trainer; build it with -DPACELINE_TRAINER=ON, or ask for COMPONENTS collectives")
    return()
  endif()
  list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})
  find_dependency(LibTorch 2.13)
  list(POP_BACK CMAKE_MODULE_PATH)
  include(${CMAKE_CURRENT_LIST_DIR}/paceline-targets.cmake)
  set_property(TARGET paceline::torch APPEND PROPERTY INTERFACE_LINK_LIBRARIES LibTorch::LibTorch)
  set_property(TARGET paceline::torch APPEND PROPERTY INTERFACE_COMPILE_FEATURES cxx_std_20)
  set(paceline_torch_FOUND TRUE)
endif()
