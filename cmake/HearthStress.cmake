# SPDX-License-Identifier: Apache-2.0
# Stress programs and their deliberately broken variants.

set(HEARTH_STRESS_LAUNCHER)
set(HEARTH_STRESS_ENVIRONMENT)
if(HEARTH_SANITIZER STREQUAL "thread")
    set(HEARTH_STRESS_ENVIRONMENT
        "TSAN_OPTIONS=history_size=7 exitcode=66 second_deadlock_stack=1")
    # ThreadSanitizer aborts at start where the kernel randomizes more address bits than it knows.
    find_program(HEARTH_SETARCH setarch)
    execute_process(COMMAND "${HEARTH_SETARCH}" -R true RESULT_VARIABLE failed ERROR_QUIET)
    if(failed)
        message(WARNING "setarch -R does not work here; ThreadSanitizer runs with random addresses")
    else()
        set(HEARTH_STRESS_LAUNCHER "${HEARTH_SETARCH}" -R)
    endif()
endif()

# Sources of a stress program: its own, and what all of them share. No variant's define is in that.
function(hearth_stress_sources output program)
    if(NOT TARGET stress_shared)
        file(GLOB programs CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/stress_*.c")
        file(GLOB shared CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.c")
        list(REMOVE_ITEM shared ${programs})
        hearth_add_shared(stress_shared ${shared})
        target_include_directories(stress_shared PRIVATE "${PROJECT_SOURCE_DIR}/src")
        hearth_set_tidy(stress_shared)
    endif()
    # More of its own is in a folder of the program's name.
    string(REGEX REPLACE "^stress_" "" folder ${program})
    file(GLOB own CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.c")
    set(${output} "${CMAKE_CURRENT_SOURCE_DIR}/${program}.c" ${own}
        $<TARGET_OBJECTS:stress_shared> PARENT_SCOPE)
endfunction()

function(hearth_add_stress program)
    hearth_stress_sources(sources ${program})
    hearth_add_program(${program} ${sources})
    # For core/perturb.h and core/atomic.h; the layering check allows nothing else.
    target_include_directories(${program} PRIVATE "${PROJECT_SOURCE_DIR}/src")
    hearth_set_tidy(${program})
    add_test(NAME ${program} COMMAND ${HEARTH_STRESS_LAUNCHER} $<TARGET_FILE:${program}> --smoke)
    set_tests_properties(${program} PROPERTIES
        LABELS stress
        PROCESSORS 2
        TIMEOUT 300
        ENVIRONMENT "${HEARTH_STRESS_ENVIRONMENT}")
endfunction()

# Another smoke run of a program, with more in its environment.
function(hearth_add_stress_again program suffix variable)
    add_test(NAME ${program}_${suffix}
        COMMAND ${HEARTH_STRESS_LAUNCHER} $<TARGET_FILE:${program}> --smoke)
    set_tests_properties(${program}_${suffix} PROPERTIES
        LABELS stress
        PROCESSORS 2
        TIMEOUT 300
        ENVIRONMENT "${HEARTH_STRESS_ENVIRONMENT};${variable}")
endfunction()

# The library sources that a define concerns: those that name it or, if a header does, the folder's. And a
# pattern of their objects.
function(hearth_broken_sources output pattern define)
    set(found)
    set(stems)
    foreach(source IN LISTS HEARTH_SOURCES HEARTH_RUNTIME_SOURCES)
        cmake_path(GET source PARENT_PATH folder)
        file(STRINGS "${source}" lines REGEX "${define}")
        if(NOT lines)
            file(GLOB headers "${folder}/*.h")
            foreach(header IN LISTS headers)
                file(STRINGS "${header}" lines REGEX "${define}" LIMIT_COUNT 1)
                if(lines)
                    break()
                endif()
            endforeach()
        endif()
        if(lines)
            cmake_path(GET source FILENAME name)
            list(APPEND found "${source}")
            list(APPEND stems "${name}")
        endif()
    endforeach()
    list(JOIN stems "|" stems)
    set(${output} "${found}" PARENT_SCOPE)
    set(${pattern} "/(${stems})[.]o" PARENT_SCOPE)
endfunction()

# hearth_add_broken_variant(<program> NAME <name> DEFINE <define> [TSAN_ONLY] [ARGS <arg>...])
# Builds the library and stress/<program>.c again with -D<define>=1 as <program>_<name> and adds a
# test that passes when one of ten smoke runs fails. TSAN_ONLY: only ThreadSanitizer can see it.
# ARGS replaces --smoke.
function(hearth_add_broken_variant program)
    cmake_parse_arguments(PARSE_ARGV 1 arg "TSAN_ONLY" "NAME;DEFINE" "ARGS")
    if(NOT arg_NAME OR NOT arg_DEFINE OR arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "hearth_add_broken_variant(${program}): needs NAME and DEFINE, "
            "does not know: ${arg_UNPARSED_ARGUMENTS}")
    endif()
    if(NOT HEARTH_BUILD_BROKEN OR (arg_TSAN_ONLY AND NOT HEARTH_SANITIZER STREQUAL "thread"))
        return()
    endif()
    if(NOT arg_ARGS)
        set(arg_ARGS --smoke)
    endif()

    # A static library of its own per define, so that several programs can share it. Only the sources that
    # the define concerns are compiled again; the others come from a build they all share.
    # With yields at the EDGEs in every build: a bug that needs an unlucky moment gets one.
    string(TOLOWER ${arg_DEFINE} library)
    if(NOT TARGET ${library})
        if(NOT TARGET hearth_perturbed_objects)
            hearth_add_objects(hearth_perturbed_objects HEARTH_PERTURB=1
                SOURCES ${HEARTH_SOURCES} ${HEARTH_RUNTIME_SOURCES})
        endif()
        add_library(${library} STATIC)
        hearth_broken_sources(sources pattern ${arg_DEFINE})
        set(others "$<TARGET_OBJECTS:hearth_perturbed_objects>")
        if(sources)
            hearth_add_objects(${library}_objects ${arg_DEFINE}=1 HEARTH_PERTURB=1
                SOURCES ${sources})
            hearth_package_objects(${library} ${library}_objects)
            target_sources(${library} PRIVATE "$<FILTER:${others},EXCLUDE,${pattern}>")
        else()
            hearth_package_objects(${library} hearth_perturbed_objects)
        endif()
    endif()

    set(target ${program}_${arg_NAME})
    hearth_stress_sources(sources ${program})
    add_executable(${target} ${sources})
    hearth_set_common(${target})
    target_compile_definitions(${target} PRIVATE ${arg_DEFINE}=1)
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src")
    target_link_libraries(${target} PRIVATE ${library} Threads::Threads ${CMAKE_DL_LIBS} m)
    add_test(NAME broken_${target}
        COMMAND "${PROJECT_SOURCE_DIR}/scripts/expect-failure"
            ${HEARTH_STRESS_LAUNCHER} $<TARGET_FILE:${target}> ${arg_ARGS})
    set_tests_properties(broken_${target} PROPERTIES
        LABELS "stress;broken"
        PROCESSORS 2
        TIMEOUT 900
        ENVIRONMENT "${HEARTH_STRESS_ENVIRONMENT}")
endfunction()
