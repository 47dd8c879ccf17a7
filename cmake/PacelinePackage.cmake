# `cpack -G DEB`, in a folder that is built, makes packages of Debian from what `cmake --install` installs: paceline, and paceline-trainer with what
# links LibTorch. Debian has no LibTorch, so the trainer finds it where the build did, and no package is named for it.
set(CPACK_PACKAGE_NAME paceline)
set(CPACK_PACKAGE_CONTACT "the authors of Paceline")
set(CPACK_COMPONENTS_ALL programs library)
set(CPACK_COMPONENT_PROGRAMS_GROUP paceline)
set(CPACK_COMPONENT_LIBRARY_GROUP paceline)
set(CPACK_COMPONENT_TRAINER_GROUP trainer)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_STRIP_FILES ON)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # asks who owns each library that a program links
set(CPACK_DEBIAN_PACELINE_PACKAGE_NAME paceline)
set(CPACK_DEBIAN_PACELINE_PACKAGE_RECOMMENDS "iproute2, openssh-client")  # `paceline lab`, `--hosts`
set(CPACK_DEBIAN_PACELINE_PACKAGE_SUGGESTS "coinor-libcbc3")  # `plan algorithms`, `mini-batch`, `job`
if(PACELINE_TRAINER)
  list(APPEND CPACK_COMPONENTS_ALL trainer)
  set(CPACK_DEBIAN_TRAINER_PACKAGE_NAME paceline-trainer)
  set(CPACK_DEBIAN_TRAINER_PACKAGE_SHLIBDEPS OFF)  # what it links beside LibTorch, paceline links too
  set(CPACK_DEBIAN_TRAINER_PACKAGE_DEPENDS "paceline (= ${PROJECT_VERSION})")
endif()
include(CPack)
