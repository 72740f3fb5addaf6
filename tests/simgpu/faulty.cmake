# Programs with one planted mistake each. `PROGRAM wrong` must be caught, by the simulator, by a
# schedule or by a sanitizer; `PROGRAM right` differs in that mistake only and must be silent.

function(faulty_programs)
  foreach(name IN LISTS ARGN)
    ddp_program(simgpu_faulty_${name} faulty/${name}.cu)
    target_compile_options(simgpu_faulty_${name} PRIVATE ${DDP_TEST_OPTIONS})
    target_precompile_headers(simgpu_faulty_${name} REUSE_FROM test_headers)
    target_link_libraries(simgpu_faulty_${name} PRIVATE common_cuda Catch2::Catch2)
  endforeach()
endfunction()

# faulty_test(name variant expect.py's options...)
function(faulty_test name variant)
  add_test(NAME simgpu_faulty_${name}_${variant}
    COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/faulty/expect.py ${ARGN}
      -- $<TARGET_FILE:simgpu_faulty_${name}> ${variant})
  set_tests_properties(simgpu_faulty_${name}_${variant} PROPERTIES
    LABELS "simgpu;faulty" TIMEOUT 120)
endfunction()

# The simulator itself names the place of these, with and without a sanitizer.
set(named divergent_barrier absent_lane mask_without_caller)
faulty_programs(${named})
foreach(name IN LISTS named)
  set(source ${CMAKE_CURRENT_SOURCE_DIR}/faulty/${name}.cu)
  faulty_test(${name} right --passes --no-text simgpu: --no-text Sanitizer)
  faulty_test(${name} wrong --fails --text cudaErrorLaunchFailure --marked ${source} planted)
endforeach()

faulty_programs(gemm_outside)
faulty_test(gemm_outside right --passes --no-text simgpu: --no-text Sanitizer)
faulty_test(gemm_outside wrong --fails --text "leading dimensions 5, 4, 4 leaves the memory")

set(races missing_barrier missing_wait early_read block_race nccl_missing_wait)
faulty_programs(${races})
target_link_libraries(simgpu_faulty_nccl_missing_wait PRIVATE ddp_nccl)
if(DDP_SANITIZE STREQUAL "")
  # Without a sanitizer a race shows as a wrong result under some order, and never in the right one.
  set(settings SIMGPU_SCHEDULE=async SIMGPU_SCHEDULE=eager
    SIMGPU_THREAD_ORDER=reverse SIMGPU_THREAD_ORDER=random:1 SIMGPU_THREAD_ORDER=random:2)
  foreach(seed RANGE 1 6)
    list(APPEND settings SIMGPU_SCHEDULE=delays:${seed})
  endforeach()
  foreach(name IN LISTS races)
    faulty_test(${name} right --passes-under ${settings} --no-text simgpu:)
    faulty_test(${name} wrong --fails-under ${settings})
  endforeach()

  faulty_programs(leak)
  faulty_test(leak right --passes --no-text leak)
  faulty_test(leak wrong --passes --text "simgpu: leak: 1024 bytes of device memory, device 0"
    --text "simgpu: leak: 512 bytes of pinned memory" --text "leak: 1 streams"
    --text "leak: 1 events")
elseif(DDP_SANITIZE STREQUAL "thread")
  foreach(name IN LISTS races)
    set(source ${CMAKE_CURRENT_SOURCE_DIR}/faulty/${name}.cu)
    faulty_test(${name} right --passes --no-text ThreadSanitizer --no-text simgpu:)
    faulty_test(${name} wrong --fails --text "ThreadSanitizer: data race" --marked ${source} planted)
  endforeach()
elseif(DDP_SANITIZE STREQUAL "address")
  faulty_programs(out_of_bounds use_after_free)
  foreach(name IN ITEMS out_of_bounds use_after_free)
    set(source ${CMAKE_CURRENT_SOURCE_DIR}/faulty/${name}.cu)
    faulty_test(${name} right --passes --no-text AddressSanitizer --no-text simgpu:)
    faulty_test(${name} wrong --fails --text "AddressSanitizer: heap-" --marked ${source} planted)
  endforeach()
endif()
