# Finds what libwvgd links to: wvgd::dependencies, and libwvgd-tools: wvgd::tools_dependencies. Used by the build and, for the static libraries, by the
# installed package.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_library(WVGD_BLAS_LIBRARY NAMES openblas)
find_path(WVGD_BLAS_INCLUDE_DIR NAMES cblas.h PATH_SUFFIXES openblas openblas-pthread openblas-openmp)
find_library(WVGD_LAPACKE_LIBRARY NAMES lapacke)
find_path(WVGD_LAPACKE_INCLUDE_DIR NAMES lapacke.h PATH_SUFFIXES lapacke openblas)
mark_as_advanced(WVGD_BLAS_LIBRARY WVGD_BLAS_INCLUDE_DIR WVGD_LAPACKE_LIBRARY WVGD_LAPACKE_INCLUDE_DIR)

if(WVGD_BLAS_LIBRARY AND WVGD_LAPACKE_LIBRARY AND NOT TARGET wvgd::dependencies)
    add_library(wvgd::dependencies INTERFACE IMPORTED)
    set_target_properties(wvgd::dependencies PROPERTIES
        INTERFACE_LINK_LIBRARIES "${WVGD_LAPACKE_LIBRARY};${WVGD_BLAS_LIBRARY};Threads::Threads;m")
    if(WVGD_BLAS_INCLUDE_DIR AND WVGD_LAPACKE_INCLUDE_DIR) # of no use to those who only link
        set_target_properties(wvgd::dependencies PROPERTIES
            INTERFACE_INCLUDE_DIRECTORIES "${WVGD_BLAS_INCLUDE_DIR};${WVGD_LAPACKE_INCLUDE_DIR}")
    endif()
endif()

find_library(WVGD_CSV_LIBRARY csv)
find_library(WVGD_JANSSON_LIBRARY jansson)
mark_as_advanced(WVGD_CSV_LIBRARY WVGD_JANSSON_LIBRARY)
if(TARGET wvgd::dependencies AND WVGD_CSV_LIBRARY AND WVGD_JANSSON_LIBRARY AND NOT TARGET wvgd::tools_dependencies)
    add_library(wvgd::tools_dependencies INTERFACE IMPORTED)
    set_target_properties(wvgd::tools_dependencies PROPERTIES
        INTERFACE_LINK_LIBRARIES "${WVGD_CSV_LIBRARY};${WVGD_JANSSON_LIBRARY};wvgd::dependencies;${CMAKE_DL_LIBS}")
endif()
