# SPDX-License-Identifier: Apache-2.0
# HEARTH_JEMALLOC=private embeds a renamed copy of the distribution's jemalloc as one object. Its
# public names become hearth__je_*, everything else becomes local, so linking hearth, shared or
# static, neither replaces the host's malloc nor meets another jemalloc in the process.

if(HEARTH_JEMALLOC STREQUAL "system")
    find_library(HEARTH_JEMALLOC_LIBRARY jemalloc)
    if(NOT HEARTH_JEMALLOC_LIBRARY)
        message(FATAL_ERROR "libjemalloc.so not found: install libjemalloc-dev or set HEARTH_JEMALLOC=off")
    endif()
endif()

# hearth_embed_jemalloc(<target> <archive> <object>): a target that makes the object out of a PIC archive.
function(hearth_embed_jemalloc target archive object)
    set(embed "${PROJECT_SOURCE_DIR}/cmake/embed-jemalloc.sh")
    set(conf_source "${PROJECT_SOURCE_DIR}/cmake/jemalloc-conf.c")
    add_custom_command(
        OUTPUT "${object}"
        COMMAND ${CMAKE_COMMAND} -E env
            "CC=${CMAKE_C_COMPILER}" "AR=${CMAKE_AR}" "LD=${CMAKE_LINKER}" "NM=${CMAKE_NM}" "OBJCOPY=${CMAKE_OBJCOPY}"
            sh "${embed}" "${archive}" "${conf_source}" "${object}"
        DEPENDS "${embed}" "${conf_source}" "${archive}"
        COMMENT "Embedding a private jemalloc"
        VERBATIM)
    add_custom_target(${target} DEPENDS "${object}")
endfunction()

if(HEARTH_JEMALLOC STREQUAL "private")
    find_library(HEARTH_JEMALLOC_PIC NAMES libjemalloc_pic.a)
    if(NOT HEARTH_JEMALLOC_PIC)
        message(FATAL_ERROR
            "libjemalloc_pic.a not found: install libjemalloc-dev or set HEARTH_JEMALLOC=system or off")
    endif()
    set(HEARTH_JEMALLOC_OBJECT "${PROJECT_BINARY_DIR}/hearth_jemalloc.o")
    hearth_embed_jemalloc(hearth_jemalloc_object "${HEARTH_JEMALLOC_PIC}" "${HEARTH_JEMALLOC_OBJECT}")
endif()
