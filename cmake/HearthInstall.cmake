# SPDX-License-Identifier: Apache-2.0
include(CMakePackageConfigHelpers)

set(headers ${HEARTH_INSTALLED_HEADERS} ${HEARTH_RUNTIME_HEADERS})
list(TRANSFORM headers PREPEND "${PROJECT_SOURCE_DIR}/include/hearth/")
install(FILES ${headers} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/hearth")
install(TARGETS hearth hearth_static hearth_runtime hearth_runtime_static EXPORT hearth-targets
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")

set(config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/hearth")
install(EXPORT hearth-targets NAMESPACE hearth:: DESTINATION "${config_dir}")
configure_package_config_file(
    "${PROJECT_SOURCE_DIR}/cmake/hearth-config.cmake.in"
    "${PROJECT_BINARY_DIR}/hearth-config.cmake"
    INSTALL_DESTINATION "${config_dir}")
# Before 1.0 a minor release may change the interface.
write_basic_package_version_file(
    "${PROJECT_BINARY_DIR}/hearth-config-version.cmake"
    COMPATIBILITY SameMinorVersion)
install(FILES
    "${PROJECT_BINARY_DIR}/hearth-config.cmake"
    "${PROJECT_BINARY_DIR}/hearth-config-version.cmake"
    DESTINATION "${config_dir}")

set(HEARTH_PC_LIBS_PRIVATE "-pthread -lm")
if(HEARTH_JEMALLOC STREQUAL "system")
    string(APPEND HEARTH_PC_LIBS_PRIVATE " -ljemalloc")
endif()
if(EXISTS "${PROJECT_SOURCE_DIR}/src/concurrent/reclaim.c")
    string(APPEND HEARTH_PC_LIBS_PRIVATE " -lurcu-bp")
endif()
# The file finds its prefix from where it lies, unless the layout leaves the prefix.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
    set(HEARTH_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
else()
    file(RELATIVE_PATH up "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
    string(REGEX REPLACE "/$" "" up "${up}")
    set(HEARTH_PC_PREFIX "\${pcfiledir}/${up}")
endif()
set(HEARTH_PC_LIBDIR "\${exec_prefix}")
set(HEARTH_PC_INCLUDEDIR "\${prefix}")
cmake_path(APPEND HEARTH_PC_LIBDIR "${CMAKE_INSTALL_LIBDIR}")
cmake_path(APPEND HEARTH_PC_INCLUDEDIR "${CMAKE_INSTALL_INCLUDEDIR}")
foreach(name hearth hearth-runtime)
    configure_file("${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in" "${PROJECT_BINARY_DIR}/${name}.pc" @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/${name}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endforeach()
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
