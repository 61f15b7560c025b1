# SPDX-License-Identifier: Apache-2.0
# Checks of the tree and of the built library, as tests labelled "check"; those that look at nothing but the tree
# are labelled "source" too, and run in one preset only.

function(hearth_add_check name)
    add_test(NAME ${name} COMMAND ${ARGN})
    set_tests_properties(${name} PROPERTIES
        LABELS check
        TIMEOUT 300
        SKIP_RETURN_CODE 77)
endfunction()

set(scripts "${PROJECT_SOURCE_DIR}/scripts")
hearth_add_check(header_check "${scripts}/check-headers" "${PROJECT_SOURCE_DIR}/include")
hearth_add_check(layering "${scripts}/check-layering" "${PROJECT_SOURCE_DIR}")
hearth_add_check(edges "${scripts}/check-edges" "${PROJECT_SOURCE_DIR}")
hearth_add_check(format "${scripts}/check-format" "${PROJECT_SOURCE_DIR}")
hearth_add_check(python_source "${scripts}/check-python" "${PROJECT_SOURCE_DIR}")
set_tests_properties(header_check layering edges format python_source PROPERTIES LABELS "check;source")

# What is shipped, so neither sanitized nor instrumented.
if(HEARTH_SANITIZER STREQUAL "" AND NOT HEARTH_COVERAGE)
    foreach(library hearth hearth_runtime)
        set(headers ${HEARTH_INSTALLED_HEADERS})
        set(check exports)
        if(library STREQUAL "hearth_runtime")
            set(headers ${HEARTH_RUNTIME_HEADERS})
            set(check exports_runtime)
        endif()
        list(TRANSFORM headers PREPEND "${PROJECT_SOURCE_DIR}/include/hearth/")
        hearth_add_check(${check} "${scripts}/check-exports" $<TARGET_FILE:${library}> ${headers})
    endforeach()
    hearth_add_check(consumer "${scripts}/check-consumer"
        "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}" "${HEARTH_JEMALLOC}")
endif()

# After the tests: lines executed per source file of the library.
if(HEARTH_COVERAGE)
    add_custom_target(coverage
        COMMAND sh -c "find CMakeFiles/hearth_objects.dir -name '*.gcda' -exec gcov -n -r -s '${PROJECT_SOURCE_DIR}' {} +"
        WORKING_DIRECTORY "${PROJECT_BINARY_DIR}"
        VERBATIM)
endif()
