# SPDX-License-Identifier: Apache-2.0
# The subjects of bench_io that need a library. Headers of theirs are not ours to warn about:
# imported targets bring them in as system headers.

pkg_check_modules(BENCH_AVUTIL QUIET IMPORTED_TARGET libavutil)
if(BENCH_AVUTIL_FOUND)
    bench_add_io(avbufferpool PkgConfig::BENCH_AVUTIL)
else()
    message(STATUS "bench io: no libavutil, avbufferpool is left out")
endif()

pkg_check_modules(BENCH_GSTREAMER QUIET IMPORTED_TARGET gstreamer-1.0)
if(BENCH_GSTREAMER_FOUND)
    bench_add_io(gstreamer PkgConfig::BENCH_GSTREAMER)
else()
    message(STATUS "bench io: no gstreamer-1.0, gstreamer is left out")
endif()

# Of DPDK only the few static archives that mbufs need: a program on the shared libraries loads
# every driver that is installed. The ring that is behind a pool registers itself, so all of its
# archive is taken.
pkg_check_modules(BENCH_DPDK QUIET libdpdk)
find_library(BENCH_DPDK_EAL librte_eal.a HINTS ${BENCH_DPDK_LIBRARY_DIRS})
find_library(BENCH_NUMA numa)
find_library(BENCH_BSD bsd)
if(BENCH_DPDK_FOUND AND BENCH_DPDK_EAL AND BENCH_NUMA AND BENCH_BSD)
    cmake_path(GET BENCH_DPDK_EAL PARENT_PATH folder)
    bench_add_io(dpdk
        "$<LINK_LIBRARY:WHOLE_ARCHIVE,${folder}/librte_mempool_ring.a>"
        "${folder}/librte_mbuf.a" "${folder}/librte_mempool.a" "${folder}/librte_ring.a"
        "${folder}/librte_eal.a" "${folder}/librte_telemetry.a" "${folder}/librte_kvargs.a"
        "${BENCH_NUMA}" "${BENCH_BSD}")
    # DPDK's headers are written for GNU C.
    set_target_properties(bench_io_dpdk PROPERTIES C_EXTENSIONS ON)
    target_include_directories(bench_io_dpdk SYSTEM PRIVATE ${BENCH_DPDK_INCLUDE_DIRS})
    target_compile_options(bench_io_dpdk PRIVATE ${BENCH_DPDK_CFLAGS_OTHER})
else()
    message(STATUS "bench io: no libdpdk, dpdk is left out")
endif()
