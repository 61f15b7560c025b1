# SPDX-License-Identifier: Apache-2.0
# Every switch of the build, checked here so that a wrong value names itself.

if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
    message(FATAL_ERROR "hearth supports Linux only, not ${CMAKE_SYSTEM_NAME}")
endif()

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()

option(HEARTH_BUILD_TESTS "Build tests and checks" ${PROJECT_IS_TOP_LEVEL})
option(HEARTH_BUILD_STRESS "Build stress programs" ${PROJECT_IS_TOP_LEVEL})
option(HEARTH_BUILD_BROKEN "Build the variants that are broken on purpose" ON)
option(HEARTH_BUILD_BENCH "Build benchmarks" ${PROJECT_IS_TOP_LEVEL})
option(HEARTH_BUILD_TOOLS "Build the hearth command" ${PROJECT_IS_TOP_LEVEL})
option(HEARTH_BUILD_EXAMPLES "Build the examples" ${PROJECT_IS_TOP_LEVEL})
option(HEARTH_WERROR "Treat warnings as errors" ${PROJECT_IS_TOP_LEVEL})
option(HEARTH_PERTURB "Inject yields at EDGE labels" OFF)
option(HEARTH_COVERAGE "Instrument for gcov" OFF)
option(HEARTH_TIDY "Run clang-tidy on everything but the tests" OFF)

# hearth_choice(<variable> <default> <help> <value>...): a string option with a closed set of values.
function(hearth_choice variable default help)
    set(${variable} "${default}" CACHE STRING "${help}")
    set_property(CACHE ${variable} PROPERTY STRINGS ${ARGN})
    # As text: the empty string is a value too, and if(IN_LIST) loses it.
    foreach(value IN LISTS ARGN)
        if("x${${variable}}" STREQUAL "x${value}")
            return()
        endif()
    endforeach()
    if("${${variable}}" STREQUAL "")
        return()
    endif()
    list(JOIN ARGN " | " allowed)
    message(FATAL_ERROR "${variable}=${${variable}}: expected one of ${allowed}")
endfunction()

hearth_choice(HEARTH_SANITIZER "" "Sanitizer" "address,undefined" "thread")
hearth_choice(HEARTH_JEMALLOC private "Which jemalloc to use" private system off)
hearth_choice(HEARTH_DEFAULT_BACKING auto "Backing used when none is named" auto jemalloc mmap)
hearth_choice(HEARTH_CHECK_LEVEL 0 "Invariant checks: none, cheap, all" 0 1 2)

# Sanitizers know nothing about jemalloc's memory, so their builds take pages from mmap.
if(HEARTH_DEFAULT_BACKING STREQUAL "auto")
    if(HEARTH_SANITIZER OR HEARTH_JEMALLOC STREQUAL "off")
        set(HEARTH_BACKING mmap)
    else()
        set(HEARTH_BACKING jemalloc)
    endif()
else()
    set(HEARTH_BACKING ${HEARTH_DEFAULT_BACKING})
endif()
if(HEARTH_BACKING STREQUAL "jemalloc" AND HEARTH_JEMALLOC STREQUAL "off")
    message(FATAL_ERROR "HEARTH_DEFAULT_BACKING=jemalloc needs HEARTH_JEMALLOC=private or system")
endif()

# version.h is written by hand so that it can be read without a build; the two must agree.
set(hearth_version_header "${PROJECT_SOURCE_DIR}/include/hearth/version.h")
if(EXISTS "${hearth_version_header}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${hearth_version_header}")
    foreach(part MAJOR MINOR PATCH)
        file(STRINGS "${hearth_version_header}" line
            REGEX "^#[ \t]*define[ \t]+HEARTH_VERSION_${part}[ \t]+[0-9]+")
        if(line MATCHES "HEARTH_VERSION_${part}[ \t]+([0-9]+)"
                AND NOT CMAKE_MATCH_1 EQUAL PROJECT_VERSION_${part})
            message(FATAL_ERROR "version.h says HEARTH_VERSION_${part} ${CMAKE_MATCH_1}, "
                "CMakeLists.txt says ${PROJECT_VERSION}")
        endif()
    endforeach()
endif()
