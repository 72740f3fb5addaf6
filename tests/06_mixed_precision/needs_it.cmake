# What the stage has to show: whole runs that need it, and one that does not.
ddp_run_test(stage06_needs_it COST 15 LABELS stage06 COMMAND ${Python3_EXECUTABLE}
  ${CMAKE_CURRENT_LIST_DIR}/needs_it_test.py $<TARGET_FILE:06_mixed_precision>)
ddp_run_test(stage06_accuracy TIMEOUT 900 COST 200 PROCESSORS 2 LABELS stage06 slow
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/accuracy_test.py
  $<TARGET_FILE:06_mixed_precision> ${DDP_ONE_GPU_ACCURACY})
if(TEST stage06_accuracy)
  set_tests_properties(stage06_accuracy PROPERTIES FIXTURES_REQUIRED one_gpu_accuracy)
endif()
