# SPDX-License-Identifier: Apache-2.0
# Flags per target, never global.

find_package(Threads REQUIRED)

function(hearth_set_warnings target)
    target_compile_options(${target} PRIVATE
        -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes
        -Wvla -Wundef)
    if(HEARTH_WERROR)
        target_compile_options(${target} PRIVATE -Werror)
    endif()
endfunction()

# sanitizer: "", "address,undefined" or "thread".
function(hearth_set_sanitizer target sanitizer)
    if(sanitizer STREQUAL "")
        return()
    endif()
    set(flags -fsanitize=${sanitizer} -fno-omit-frame-pointer -g)
    if(sanitizer STREQUAL "thread")
        list(APPEND flags -O1)
        # gcc expands memset and friends in line without instrumenting them.
        if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
            list(APPEND flags -fno-builtin)
        endif()
    else()
        list(APPEND flags -fno-sanitize-recover=all)
    endif()
    target_compile_options(${target} PRIVATE ${flags})
    target_link_options(${target} PRIVATE -fsanitize=${sanitizer})
endfunction()

function(hearth_set_coverage target)
    if(HEARTH_COVERAGE)
        target_compile_options(${target} PRIVATE --coverage)
        target_link_options(${target} PRIVATE --coverage)
    endif()
endfunction()

function(hearth_set_tidy target)
    if(HEARTH_TIDY)
        find_program(HEARTH_CLANG_TIDY NAMES clang-tidy REQUIRED)
        set_target_properties(${target} PROPERTIES C_CLANG_TIDY "${HEARTH_CLANG_TIDY};--quiet")
    endif()
endfunction()

# What every target of this project has in common.
function(hearth_set_common target)
    set_target_properties(${target} PROPERTIES
        C_STANDARD 11
        C_STANDARD_REQUIRED ON
        C_EXTENSIONS OFF)
    target_compile_definitions(${target} PRIVATE
        _GNU_SOURCE
        HEARTH_CHECK_LEVEL=${HEARTH_CHECK_LEVEL}
        $<$<BOOL:${HEARTH_PERTURB}>:HEARTH_PERTURB=1>)
    hearth_set_warnings(${target})
    hearth_set_sanitizer(${target} "${HEARTH_SANITIZER}")
    hearth_set_coverage(${target})
endfunction()

# hearth_add_objects(<target> [<definition>...] [SOURCES <source>...]): library sources, all of them
# unless some are named, compiled once.
function(hearth_add_objects target)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES")
    if(NOT arg_SOURCES)
        set(arg_SOURCES ${HEARTH_SOURCES})
    endif()
    add_library(${target} OBJECT ${arg_SOURCES})
    hearth_set_common(${target})
    set_target_properties(${target} PROPERTIES
        POSITION_INDEPENDENT_CODE ON
        C_VISIBILITY_PRESET hidden)
    target_include_directories(${target} PRIVATE
        "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
    string(TOUPPER ${HEARTH_BACKING} backing)
    target_compile_definitions(${target} PRIVATE
        HEARTH_BUILDING=1
        HEARTH_DEFAULT_BACKING_${backing}=1
        ${arg_UNPARSED_ARGUMENTS})
    if(NOT HEARTH_JEMALLOC STREQUAL "off")
        string(TOUPPER ${HEARTH_JEMALLOC} jemalloc)
        target_compile_definitions(${target} PRIVATE HEARTH_JEMALLOC_${jemalloc}=1)
    endif()
    target_link_libraries(${target} PRIVATE Threads::Threads)
    # liburcu has one user; without it the library must build where liburcu is missing.
    if(EXISTS "${PROJECT_SOURCE_DIR}/src/concurrent/reclaim.c")
        find_package(PkgConfig REQUIRED)
        pkg_check_modules(URCU_BP REQUIRED IMPORTED_TARGET GLOBAL liburcu-bp)
        target_link_libraries(${target} PRIVATE PkgConfig::URCU_BP)
    endif()
endfunction()

# What whoever links the objects needs: jemalloc, threads, dladdr(), libm (used by jemalloc).
function(hearth_link_dependencies target)
    if(HEARTH_JEMALLOC STREQUAL "private")
        target_sources(${target} PRIVATE "${HEARTH_JEMALLOC_OBJECT}")
        add_dependencies(${target} hearth_jemalloc_object)
    elseif(HEARTH_JEMALLOC STREQUAL "system")
        target_link_libraries(${target} PRIVATE jemalloc)
    endif()
    target_link_libraries(${target} PRIVATE Threads::Threads ${CMAKE_DL_LIBS} m)
    if(EXISTS "${PROJECT_SOURCE_DIR}/src/concurrent/reclaim.c")
        target_link_libraries(${target} PRIVATE urcu-bp)
    endif()
endfunction()

# Makes a library out of an object library.
function(hearth_package_objects target objects)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${objects}>)
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C)
    target_include_directories(${target} INTERFACE
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    hearth_link_dependencies(${target})
    hearth_set_sanitizer(${target} "${HEARTH_SANITIZER}")
    hearth_set_coverage(${target})
endfunction()

# As hearth_package_objects(), for what uses `library`, a packaging of the other objects.
function(hearth_package_runtime target objects library)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${objects}>)
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C)
    target_link_libraries(${target} PUBLIC ${library} PRIVATE Threads::Threads)
    hearth_set_sanitizer(${target} "${HEARTH_SANITIZER}")
    hearth_set_coverage(${target})
endfunction()

# With another version script than libhearth's, if one is named.
function(hearth_set_shared_options target)
    set(map "${PROJECT_SOURCE_DIR}/cmake/libhearth.map")
    if(ARGC GREATER 1)
        set(map "${ARGV1}")
    endif()
    set_target_properties(${target} PROPERTIES
        VERSION ${PROJECT_VERSION}
        SOVERSION ${PROJECT_VERSION_MAJOR}
        LINK_DEPENDS "${map}")
    # nodelete: threads and exit handlers may still run our code after a dlclose.
    target_link_options(${target} PRIVATE "LINKER:--version-script=${map}" LINKER:-z,nodelete)
    # A sanitized library takes its runtime from the program, so symbols stay open there.
    if(HEARTH_SANITIZER STREQUAL "")
        target_link_options(${target} PRIVATE LINKER:-z,defs)
    endif()
endfunction()

# hearth_add_shared(<target> <source>...): what several programs have in common, compiled once for all of
# them; they take $<TARGET_OBJECTS:<target>> as a source.
function(hearth_add_shared target)
    add_library(${target} OBJECT ${ARGN})
    hearth_set_common(${target})
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/include")
endfunction()

# hearth_add_program(<target> <source>...): a program of this project on the static library.
function(hearth_add_program target)
    add_executable(${target} ${ARGN})
    hearth_set_common(${target})
    target_link_libraries(${target} PRIVATE
        hearth_runtime_static hearth_static Threads::Threads ${CMAKE_DL_LIBS} m)
endfunction()
