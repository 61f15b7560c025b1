# SPDX-License-Identifier: Apache-2.0
# Whether the Python package can be built, and for which interpreter: the distribution's own by its full name, since
# another python3 may come first in PATH.

hearth_choice(HEARTH_BUILD_PYTHON auto "Build the Python package" auto on off)
set(HEARTH_PYTHON /usr/bin/python3 CACHE FILEPATH "The interpreter that the Python package is built for")

set(HEARTH_PYTHON_FOUND OFF)
set(HEARTH_PYTHON_NUMPY_INCLUDE "")
if(NOT HEARTH_BUILD_PYTHON STREQUAL "off" AND (PROJECT_IS_TOP_LEVEL OR HEARTH_BUILD_PYTHON STREQUAL "on"))
    set(Python3_EXECUTABLE "${HEARTH_PYTHON}")
    find_package(Python3 3.11 COMPONENTS Interpreter Development.Module)
    if(Python3_FOUND)
        set(HEARTH_PYTHON_FOUND ON)
        execute_process(
            COMMAND "${HEARTH_PYTHON}" -c "import numpy; print(numpy.get_include())"
            OUTPUT_VARIABLE HEARTH_PYTHON_NUMPY_INCLUDE OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    elseif(HEARTH_BUILD_PYTHON STREQUAL "on")
        message(FATAL_ERROR "HEARTH_BUILD_PYTHON=on: ${HEARTH_PYTHON} with its headers not found: "
            "install python3-dev, name another interpreter in HEARTH_PYTHON, or set HEARTH_BUILD_PYTHON=off")
    else()
        message(STATUS "Python package: not built, ${HEARTH_PYTHON} (3.11 or later) or its headers are missing")
    endif()
endif()
