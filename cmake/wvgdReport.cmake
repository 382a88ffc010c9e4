# The page of `wvgd report` is bundled from report/web with packages of the npm registry, which package-lock.json pins, by Node.js alone: npm is not needed.
# Without Node.js, or without the packages and the registry, wvgd is built without it, and `wvgd report` says so.
#   WVGD_NODE               the program node, 18 or later
#   WVGD_REPORT_PACKAGES    a node_modules with the packages; default: fetched into the build directory, or report/web/node_modules if `npm ci` has made it
# Sets wvgd_report, for the table of what was found, and wvgd_report_page, the bundled page, or nothing.
find_program(WVGD_NODE NAMES node nodejs)
set(web ${PROJECT_SOURCE_DIR}/report/web)
set(WVGD_REPORT_PACKAGES "" CACHE PATH "Packages of the npm registry that the report is bundled with")
set(wvgd_report_packages ${PROJECT_BINARY_DIR}/report/node_modules)
if(WVGD_REPORT_PACKAGES)
    set(wvgd_report_packages ${WVGD_REPORT_PACKAGES})
elseif(EXISTS ${web}/node_modules/esbuild)
    set(wvgd_report_packages ${web}/node_modules)
endif()

# wvgd_fetch(RESULT PACKAGE...): "" if the packages are there, or why not.
function(wvgd_fetch result)
    execute_process(COMMAND ${WVGD_NODE} ${web}/fetch.mjs ${web}/package-lock.json ${wvgd_report_packages} ${ARGN}
                    RESULT_VARIABLE code ERROR_VARIABLE why OUTPUT_QUIET ERROR_STRIP_TRAILING_WHITESPACE)
    if(code EQUAL 0)
        set(why "")
    elseif(NOT why)
        set(why "fetch.mjs: ${code}")
    endif()
    set(${result} "${why}" PARENT_SCOPE)
endfunction()

set(wvgd_report_page "")
if(NOT WVGD_NODE)
    set(wvgd_report "left out: no Node.js (Debian package nodejs)")
else()
    execute_process(COMMAND ${WVGD_NODE} -p "process.versions.node.split('.')[0] >= 18" OUTPUT_VARIABLE recent ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT recent STREQUAL "true")
        set(wvgd_report "left out: ${WVGD_NODE} is older than 18")
    else()
        wvgd_fetch(why @observablehq/plot d3 esbuild)
        if(why)
            set(wvgd_report "left out: ${why}")
        else()
            set(wvgd_report_page ${PROJECT_BINARY_DIR}/report/page.html)
            set(wvgd_report "${WVGD_NODE}")
        endif()
    endif()
endif()

if(wvgd_report_page)
    file(GLOB web_sources CONFIGURE_DEPENDS ${web}/*.js ${web}/*.css ${web}/*.html ${web}/bundle.mjs ${web}/package-lock.json)
    add_custom_command(OUTPUT ${wvgd_report_page} DEPENDS ${web_sources}
                       COMMAND ${WVGD_NODE} ${web}/bundle.mjs ${wvgd_report_packages} ${wvgd_report_page} COMMENT "Bundling the page of wvgd report" VERBATIM)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/report/page.c PROPERTIES COMPILE_DEFINITIONS WVGD_PAGE="${wvgd_report_page}" OBJECT_DEPENDS ${wvgd_report_page})
endif()
