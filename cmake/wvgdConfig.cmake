# find_package(wvgd): wvgd::wvgd, the shared library, and wvgd::wvgd_static, which needs the development files of OpenBLAS and LAPACKE.
include(${CMAKE_CURRENT_LIST_DIR}/wvgdTargets.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/wvgdDependencies.cmake)
if(TARGET wvgd::dependencies)
    include(${CMAKE_CURRENT_LIST_DIR}/wvgdStaticTargets.cmake)
elseif(NOT wvgd_FIND_QUIETLY)
    message(STATUS "wvgd: no wvgd::wvgd_static, since OpenBLAS (WVGD_BLAS_LIBRARY) or LAPACKE (WVGD_LAPACKE_LIBRARY) was not found")
endif()
