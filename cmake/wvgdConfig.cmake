# find_package(wvgd): wvgd::wvgd and wvgd::wvgd_tools, the shared libraries; wvgd::wvgd_static, which needs the development files of OpenBLAS and LAPACKE;
# wvgd::wvgd_tools_static, which needs those of libcsv and Jansson, too. Those of tools are there if wvgd was built with its program.
include(${CMAKE_CURRENT_LIST_DIR}/wvgdTargets.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/wvgdDependencies.cmake)
if(TARGET wvgd::dependencies)
    include(${CMAKE_CURRENT_LIST_DIR}/wvgdStaticTargets.cmake)
elseif(NOT wvgd_FIND_QUIETLY)
    message(STATUS "wvgd: no wvgd::wvgd_static, since OpenBLAS (WVGD_BLAS_LIBRARY) or LAPACKE (WVGD_LAPACKE_LIBRARY) was not found")
endif()
if(TARGET wvgd::tools_dependencies)
    include(${CMAKE_CURRENT_LIST_DIR}/wvgdToolsStaticTargets.cmake OPTIONAL)
elseif(NOT wvgd_FIND_QUIETLY)
    message(STATUS "wvgd: no wvgd::wvgd_tools_static, since libcsv (WVGD_CSV_LIBRARY) or Jansson (WVGD_JANSSON_LIBRARY) was not found")
endif()
