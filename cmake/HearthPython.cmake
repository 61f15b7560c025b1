# SPDX-License-Identifier: Apache-2.0
# Whether the Python package can be built, and with what: for the distribution's interpreter by its full name, since
# another python3 may come first in PATH, and on which jemalloc.

hearth_choice(HEARTH_BUILD_PYTHON auto "Build the Python package" auto on off)
set(HEARTH_PYTHON /usr/bin/python3 CACHE FILEPATH "The interpreter that the Python package is built for")
set(HEARTH_PYTHON_JEMALLOC auto CACHE STRING
    "jemalloc of the Python package: auto (what scripts/build-jemalloc built), off, or a PIC archive")

set(HEARTH_PYTHON_FOUND OFF)
set(HEARTH_PYTHON_NUMPY_INCLUDE "")
set(HEARTH_PYTHON_JEMALLOC_ARCHIVE "")

# hearth_python_missing(<what and remedy>): why the package is not built; an error where it was asked for.
function(hearth_python_missing reason)
    if(HEARTH_BUILD_PYTHON STREQUAL "on")
        message(FATAL_ERROR "HEARTH_BUILD_PYTHON=on: ${reason}, or set HEARTH_BUILD_PYTHON=off")
    endif()
    message(STATUS "Python package: not built: ${reason}")
endfunction()

# hearth_python_find_jemalloc(<variable>): the archive to embed, or nothing. An interpreter loads the package by
# dlopen, where there is no room for jemalloc's variables in initial-exec TLS, as the distribution's archive has them.
function(hearth_python_find_jemalloc variable)
    set(${variable} "" PARENT_SCOPE)
    if(HEARTH_PYTHON_JEMALLOC STREQUAL "off")
        return()
    endif()
    set(archive "${HEARTH_PYTHON_JEMALLOC}")
    if(archive STREQUAL "auto")
        set(cache "$ENV{XDG_CACHE_HOME}")
        if(NOT cache)
            set(cache "$ENV{HOME}/.cache")
        endif()
        set(archive "${cache}/hearth/jemalloc/libjemalloc_pic.a")
        if(NOT EXISTS "${archive}")
            return()
        endif()
    elseif(NOT EXISTS "${archive}")
        message(FATAL_ERROR "HEARTH_PYTHON_JEMALLOC=${archive}: no such file: expected auto, off or the path of a "
            "libjemalloc_pic.a as scripts/build-jemalloc makes it")
    endif()
    # The script tells what it found by its exit code.
    execute_process(
        COMMAND "${CMAKE_COMMAND}" -E env "READELF=${CMAKE_READELF}"
            sh "${PROJECT_SOURCE_DIR}/cmake/check-dlopen-safe.sh" "${archive}"
        RESULT_VARIABLE failed ERROR_VARIABLE reason ERROR_STRIP_TRAILING_WHITESPACE)
    if(NOT failed)
        set(${variable} "${archive}" PARENT_SCOPE)
    elseif(HEARTH_PYTHON_JEMALLOC STREQUAL "auto")
        message(STATUS "Python package: without jemalloc: ${reason}")
    else()
        message(FATAL_ERROR "HEARTH_PYTHON_JEMALLOC: ${reason}")
    endif()
endfunction()

if(NOT HEARTH_BUILD_PYTHON STREQUAL "off" AND (PROJECT_IS_TOP_LEVEL OR HEARTH_BUILD_PYTHON STREQUAL "on"))
    set(Python3_EXECUTABLE "${HEARTH_PYTHON}")
    find_package(Python3 3.11 COMPONENTS Interpreter Development.Module)
    if(NOT Python3_FOUND)
        hearth_python_missing(
            "${HEARTH_PYTHON} (3.11 or later) or its headers not found: install python3-dev, name another interpreter in HEARTH_PYTHON")
    elseif(HEARTH_SANITIZER AND NOT CMAKE_C_COMPILER_ID STREQUAL "GNU")
        # Its sanitizers' runtimes are static; there is nothing to preload into the interpreter.
        hearth_python_missing("with a sanitizer the package needs gcc, not ${CMAKE_C_COMPILER_ID}: set CMAKE_C_COMPILER=gcc")
    else()
        set(HEARTH_PYTHON_FOUND ON)
        execute_process(
            COMMAND "${HEARTH_PYTHON}" -c "import numpy; print(numpy.get_include())"
            OUTPUT_VARIABLE HEARTH_PYTHON_NUMPY_INCLUDE OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
        hearth_python_find_jemalloc(HEARTH_PYTHON_JEMALLOC_ARCHIVE)
    endif()
endif()
