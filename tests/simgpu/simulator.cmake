# Tests that only the simulator can pass: what it promises beyond CUDA.
find_package(Python3 COMPONENTS Interpreter REQUIRED)

# A correct program gives the same results in whatever order streams, blocks and threads run. Every
# expectation in the conformance tests is exact, so passing under all of these is having the same bits.
set(schedules
  "eager|SIMGPU_SCHEDULE=eager"
  "delays_1|SIMGPU_SCHEDULE=delays:1"
  "delays_2|SIMGPU_SCHEDULE=delays:2"
  "delays_3|SIMGPU_SCHEDULE=delays:3"
  "reverse|SIMGPU_THREAD_ORDER=reverse"
  "random_1|SIMGPU_THREAD_ORDER=random:1"
  "random_2|SIMGPU_THREAD_ORDER=random:2"
  "delays_4_random_3|SIMGPU_SCHEDULE=delays:4,SIMGPU_THREAD_ORDER=random:3"
  "eager_reverse|SIMGPU_SCHEDULE=eager,SIMGPU_THREAD_ORDER=reverse")
if(DDP_SANITIZE STREQUAL "")  # a sanitizer's run takes too long to be repeated
  foreach(entry IN LISTS schedules)
    string(REGEX MATCH "^([^|]+)\\|(.+)$" entry "${entry}")
    set(name ${CMAKE_MATCH_1})
    string(REPLACE "," ";" environment "${CMAKE_MATCH_2}")
    foreach(program IN ITEMS simgpu_conformance simgpu_conformance_devices)
      simgpu_test(${program}_${name} PROGRAM ${program} ENVIRONMENT ${environment} LABELS schedules)
    endforeach()
  endforeach()
endif()

ddp_program(simgpu_simulator simulator/halves.cu simulator/memory.cu simulator/streams.cu
  conformance/skip.cpp)
target_compile_options(simgpu_simulator PRIVATE ${DDP_TEST_OPTIONS})
target_precompile_headers(simgpu_simulator REUSE_FROM test_headers)
target_link_libraries(simgpu_simulator PRIVATE common_cuda test_support Catch2::Catch2)
simgpu_test(simgpu_simulator PROGRAM simgpu_simulator ARGUMENTS ${DDP_CHOSEN_TESTS})

# Processes are forked by a program that has not used a device itself.
ddp_test(simgpu_nccl LABELS simgpu SOURCES simulator/nccl_processes.cpp simulator/nccl_calls.cpp
  simulator/nccl_failures.cpp simulator/nccl_sums.cpp
  LIBRARIES ddp_nccl common_cuda)

# expect_test(name environment expect.py's options...): what simgpu_visible_devices prints.
ddp_program(simgpu_visible_devices simulator/visible_devices.cpp)
function(expect_test name environment)
  add_test(NAME simgpu_${name}
    COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/faulty/expect.py ${ARGN}
      -- $<TARGET_FILE:simgpu_visible_devices>)
  set_tests_properties(simgpu_${name} PROPERTIES LABELS simgpu TIMEOUT 60
    ENVIRONMENT "${environment}")
endfunction()
expect_test(eight_devices "" --passes --text "devices: 8\n")
expect_test(three_devices SIMGPU_DEVICES=3 --passes --text "devices: 3\n")
expect_test(no_device SIMGPU_DEVICES=0 --passes --text "cudaErrorNoDevice\ndevices: 0\n")
expect_test(visible_order CUDA_VISIBLE_DEVICES=5,2 --passes
  --text "devices: 2\n0: Simulated GPU 5 .*\n1: Simulated GPU 2 ")
# As CUDA reads the list: nothing behind the first index that names no device.
expect_test(visible_until_wrong CUDA_VISIBLE_DEVICES=1,9,2 --passes
  --text "devices: 1\n0: Simulated GPU 1 ")
expect_test(visible_none CUDA_VISIBLE_DEVICES= --passes
  --text "cudaErrorNoDevice\ndevices: 0\ncudaMalloc: cudaErrorNoDevice\n")
expect_test(small_memory SIMGPU_MEMORY_MB=64 --passes --text " 64 MiB,")
expect_test(hopper "" --passes --text "0: .* MiB, compute capability 9\\.0\n")
expect_test(without_bfloat16 SIMGPU_COMPUTE_CAPABILITY=7.5 --passes
  --text "7: .* MiB, compute capability 7\\.5\n")
foreach(wrong IN ITEMS 7.2 8 8.10 8.x)
  expect_test(wrong_capability_${wrong} SIMGPU_COMPUTE_CAPABILITY=${wrong} --fails
    --text "SIMGPU_COMPUTE_CAPABILITY=${wrong}: expected MAJOR.MINOR, at least 7.5")
endforeach()
expect_test(wrong_devices SIMGPU_DEVICES=many --fails --text "SIMGPU_DEVICES=many: expected")
expect_test(wrong_schedule SIMGPU_SCHEDULE=fast --fails --text "SIMGPU_SCHEDULE=fast: expected")
expect_test(wrong_order SIMGPU_THREAD_ORDER=random --fails
  --text "SIMGPU_THREAD_ORDER=random: expected")

expect_test(wrong_nccl SIMGPU_NCCL=loud --fails --text "SIMGPU_NCCL=loud: expected")

include(faulty.cmake)

ddp_program(simgpu_load load.cu)
target_link_libraries(simgpu_load PRIVATE common_cuda)
if(DDP_SANITIZE)
  simgpu_test(simgpu_load PROGRAM simgpu_load ARGUMENTS 20000 20 unchecked LABELS load TIMEOUT 300)
else()
  simgpu_test(simgpu_load PROGRAM simgpu_load LABELS load TIMEOUT 300)
endif()
