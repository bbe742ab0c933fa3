// Copies of boxes to shared memory by TMA, and mbarriers, at which threads wait for them; from compute capability 9.0 on.
//
// A launch's tensor map says how a box lies in memory. One thread begins its copy, whose bytes arrive at an mbarrier; the mbarrier's phase ends when all bytes that a thread
// said to expect have arrived. Beyond the sizes of the map there is 0, whose bytes count too. Copies, and wgmma, use shared memory by another way than
// threads do: what threads wrote there has to be fenced, what one of them wrote is there for the other.

// what cuTensorMapEncodeTiled makes
struct __align__(64) tensor_map {
  unsigned long long words[16];
};

#if __CUDA_ARCH__ >= 900
#define RG_HAS_TENSOR_MAPS

__device__ __forceinline__ unsigned int place_in_shared(const void* place) { return (unsigned int)__cvta_generic_to_shared(place); }

__device__ __forceinline__ void mbarrier_init(unsigned long long* barrier, unsigned int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(place_in_shared(barrier)), "r"(arrivals) : "memory");
}
// so that copies find mbarriers that this thread made
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" : : : "memory");
}
__device__ __forceinline__ void mbarrier_arrive_expect_tx(unsigned long long* barrier, unsigned int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" : : "r"(place_in_shared(barrier)), "r"(bytes) : "memory");
}
// The loop is one of the assembler's: around a loop of C++ ptxas makes the matrix instructions of a step wait for each other (C7514). All threads of a warp go on
// together, as instructions of whole warps ask for.
__device__ __forceinline__ void wait_for_mbarrier(unsigned long long* barrier, unsigned int parity) {
  asm volatile("{\n"
               ".reg .pred is_over;\n"
               "again:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 is_over, [%0], %1;\n"
               "@!is_over bra again;\n"
               "}\n"
               : : "r"(place_in_shared(barrier)), "r"(parity) : "memory");
  __syncwarp();
}

// The box that begins at these coordinates, of the innermost axis first.
#define RG_COPY_BOX(RANK, PARAMETERS, PLACES, ...)                                                                               \
  __device__ __forceinline__ void copy_box(void* to, const tensor_map* map, unsigned long long* barrier, PARAMETERS) {           \
    asm volatile("cp.async.bulk.tensor." RANK ".shared::cluster.global.tile.mbarrier::complete_tx::bytes"                        \
                 " [%0], [%1, {" PLACES "}], [%2];"                                                                              \
                 : : "r"(place_in_shared(to)), "l"(map), "r"(place_in_shared(barrier)), __VA_ARGS__ : "memory");                 \
  }
#define RG_AND ,
RG_COPY_BOX("2d", int a RG_AND int b, "%3, %4", "r"(a), "r"(b))
RG_COPY_BOX("3d", int a RG_AND int b RG_AND int c, "%3, %4, %5", "r"(a), "r"(b), "r"(c))
RG_COPY_BOX("4d", int a RG_AND int b RG_AND int c RG_AND int d, "%3, %4, %5, %6", "r"(a), "r"(b), "r"(c), "r"(d))
RG_COPY_BOX("5d", int a RG_AND int b RG_AND int c RG_AND int d RG_AND int e, "%3, %4, %5, %6, %7", "r"(a), "r"(b), "r"(c), "r"(d), "r"(e))
#endif

#if defined(RG_HAS_TENSOR_MAPS)
// This thread may use them; others may after a barrier.
template <int count>
__device__ __forceinline__ void init_mbarriers(unsigned long long* first) {
  _Pragma("unroll") for (int k = 0; k < count; k++) mbarrier_init(first + k, 1);
  fence_mbarrier_init();
}
#endif
