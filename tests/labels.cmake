# Labels of tests, in one place: which have threads, processes or time, and which a short run leaves out; and their time-out.
# Each directory that adds tests ends with fed_label_tests(). `ctest --print-labels` lists the labels.
# SPDX-License-Identifier: Apache-2.0

# Label concurrent: a test with threads, processes or time, which can fail by chance. deploy/flaky.sh runs it many
# times. A test in C gets this label if its source, or a file of tests/support that it includes, has one of these words.
set(FED_CONCURRENT_WORDS "pthread_|fork\\(|waitpid|fed_threads|fed_test_run|fed_clock_|sleep\\(|poll\\(|popen\\(|system\\(")
# Tests with these names get the label, too.
set(FED_CONCURRENT_NAMES "^(e2e|browser|bindings|install|python|kill_matrix|deploy|cuda|gpu)[.]|^board[.]qemu$|^fedserver[.](http|cluster)[.]"
    "^fedclient[.](apps|transports|datacenter)[.]|^contract[.](test_(transport|each_|gpu_)|new_store$)|[.]postgres$")

# Label all: the short form of deploy/test.sh leaves these tests out. Comments: what the short form has instead.
set(FED_ALL_TESTS
    "^lint[.](tidy|headers|(once|mutate)_selftest)$"         # the compilers' own warnings
    "^e2e[.]test_(sweep|edge_deaths|worker_faults|kill_matrix)$" # e2e.test_chaos, test_edges, contract.test_each_worker_group
    "[.]postgres$|^e2e[.]test_takeover$"                     # SQLite; contract.test_stores and test_store_undone on each store
    "^(cuda|gpu|parity|rtl|browser|bench|board)[.]"          # other devices and languages: the same code on the processor
    "^contract[.](test_gpu_|gpu_traffic)|[.]test_(device_curves|worker_device)$|^fedclient[.]datacenter[.]test_gpu_coder$"
    "^deploy[.](nic|proxies|caches|image|sbom|helm|packages|completion|monitoring|units|figure|papers|quoted|tutorials|demo)$" # packaging and papers
    "^deploy[.]first_release$"                               # fedserver.stores.test_layouts
    "^python[.](test_(recipes|large_models)|wheel|types)$|^bindings[.]|^install[.]" # the other python.test_*
    "^codecs[.](portable|readme)$|^fedtrain[.]|^fedclient[.](stack|without_curl)$|^fedserver[.]task[.]new_key$" # they compile
)

# The limit is far above the time of any test, because it only serves to end tests that hang.
set(FED_TEST_TIMEOUT_S 2400)

# Does the source, or a file of tests/support that it includes, have one of these words?
function(fed_source_matches source words result)
  file(READ ${source} text)
  string(REGEX MATCHALL "#include \"[a-z_0-9]+[.]h\"" includes "${text}")
  foreach(include ${includes})
    string(REGEX REPLACE "#include \"(.*)[.]h\"" "\\1" name ${include})
    if(NOT name STREQUAL "fed_test") # it has all of them, for whom calls it
      foreach(file ${PROJECT_SOURCE_DIR}/tests/support/${name}.h ${PROJECT_SOURCE_DIR}/tests/support/${name}.c)
        if(EXISTS ${file})
          file(READ ${file} more)
          string(APPEND text "${more}")
        endif()
      endforeach()
    endif()
  endforeach()
  string(REGEX MATCH "${words}" found "${text}")
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

# Does the name match one of these expressions?
function(fed_name_matches name expressions result)
  set(${result} FALSE PARENT_SCOPE)
  foreach(expression ${expressions})
    if(name MATCHES "${expression}")
      set(${result} TRUE PARENT_SCOPE)
    endif()
  endforeach()
endfunction()

# Label the tests of this directory.
function(fed_label_tests)
  get_property(names DIRECTORY PROPERTY TESTS)
  foreach(name ${names})
    set_property(TEST ${name} PROPERTY TIMEOUT ${FED_TEST_TIMEOUT_S})
    fed_name_matches(${name} "${FED_ALL_TESTS}" in_all)
    fed_name_matches(${name} "${FED_CONCURRENT_NAMES}" found)
    if(in_all)
      set_property(TEST ${name} APPEND PROPERTY LABELS all)
    endif()
    string(REPLACE "." "/" source ${PROJECT_SOURCE_DIR}/tests.${name})
    if(NOT found AND EXISTS ${source}.c)
      fed_source_matches(${source}.c "${FED_CONCURRENT_WORDS}" found)
    endif()
    if(found)
      set_property(TEST ${name} APPEND PROPERTY LABELS concurrent)
    endif()
  endforeach()
endfunction()
