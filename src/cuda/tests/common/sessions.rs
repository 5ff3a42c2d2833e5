//! Programs that sessions are built of in tests.

/// One rank.
pub(crate) const RELU: &str = "%HostIrContainer { (T0_g_float[iS0{i0}, iS1{i1}]) -> (T1_g_float[iS2{i0}, iS3{i1}]) :
  T1_g_float[iS2{i0}, iS3{i1}]
     = relu(T0_g_float[iS0{i0}, iS1{i1}]);
} // %HostIrContainer
";

/// Two ranks.
pub(crate) const GATHER: &str = "%HostIrContainer { (T0_g_float[ideviceIdx.x0{2}, iS1{i0}] (DeviceMesh{0 1})) -> (T1_g_float[iS2{2}, iS3{i0}] (DeviceMesh{0 1})) :
  T1_g_float[iS2{2}, iS3{i0}] (DeviceMesh{0 1}) = ALLOCATE(buffer=T1_g_float[iS2{2}, iS3{i0}] (DeviceMesh{0 1}), mem_type=global, size=( 2 * i0 ), zero_init=false, resets_to_zero=false)
  Communication 1 (type=Allgather, team=(0 1), input=T0_g_float[ideviceIdx.x0{2}, iS1{i0}] (DeviceMesh{0 1}), output=T1_g_float[iS2{2}, iS3{i0}] (DeviceMesh{0 1}), backend=NCCL)
  Wait Communication 1
} // %HostIrContainer
";
