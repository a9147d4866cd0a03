/// The constants of the cost models of products on tensor cores, in one table. The estimate of an
/// engine is a closed formula of its rows here and of the problem (seconds_of, beside its plan).
/// Plain C without CUDA. Private to backends/cuda.
///
/// MEMORY is what an engine reaches of memory, bytes a second. Times are cycles of CLOCK unless
/// they say seconds. All were measured on an H200 (132 multiprocessors, copies at 4.2 TB/s), as
/// slopes over long sums or many tiles; those of SPLIT but two on an H100.
#ifndef TALC_BACKENDS_CUDA_GEMM_COSTS_H
#define TALC_BACKENDS_CUDA_GEMM_COSTS_H

#ifdef __cplusplus
#define TALC_COST static constexpr double
#else
#define TALC_COST static const double
#endif

TALC_COST CLOCK = 1.7e9; ///< cycles a second, while tensor cores are busy

/* matmul's two forms: packing; split-K. */
TALC_COST PANEL_PACKS = 4e-9;  ///< seconds to pack 16 rows of a segment, beside their bytes
TALC_COST PANEL_ADDING = 3e-6; ///< seconds of the launch that adds splits

/* tensor_cores(packed): then tiles of 128 rows and one or two panels. */
TALC_COST PACKED_MEMORY = 3e12;
TALC_COST PACKED_LAUNCHES = 12e-6;   ///< seconds of a round
TALC_COST PACKED_K_TILE_1 = 970;     ///< of one panel
TALC_COST PACKED_K_TILE_2 = 1800;    ///< of two
TALC_COST PACKED_TILE = 7000;        ///< a panel: its epilogue, and what fills the pipeline
TALC_COST PACKED_UNALIGNED = 2.4e12; ///< bytes a second of stores of 4
TALC_COST PACKED_MARGIN = 1.08;      ///< factor: it should not be slower than another algorithm

/* tensor_cores(split on load): then the longer of streaming and of products. */
TALC_COST SPLIT_MEMORY = 2.9e12;
TALC_COST SPLIT_LAUNCHES = 11e-6;
TALC_COST SPLIT_STREAM = 2.8e12;  ///< bytes a second of the streamed operand
TALC_COST SPLIT_K_TILE_32 = 1000; ///< of a tile of 32 columns
TALC_COST SPLIT_K_TILE_64 = 1300;
TALC_COST SPLIT_K_TILE_128 = 1700;
TALC_COST SPLIT_COLUMN = 76;             ///< of a tile, a column
TALC_COST SPLIT_UNALIGNED = 1.75;        ///< factor of copies of 4 bytes (H200)
TALC_COST SPLIT_K_TILE_UNALIGNED = 2200; ///< of such (H200)
TALC_COST SPLIT_UNPAIRED = 2e12;         ///< bytes a second of stores of 4

/* implicit_gemm: the longer of memory and of tiles, whose products and loads overlap, then splits.
 * Cycles are of a clock of its own. Rates of mma.sync before Hopper are those of data sheets. */
TALC_COST IMPLICIT_CLOCK = 1.75e9;
TALC_COST IMPLICIT_MEMORY = 4e12;
TALC_COST IMPLICIT_LAUNCHES = 10e-6;
TALC_COST IMPLICIT_WGMMA = 32;            ///< of a wgmma of 64 rows and 32 columns
TALC_COST IMPLICIT_RATE_MMA = 1270;       ///< products a cycle by mma.sync on Hopper
TALC_COST IMPLICIT_RATE_MMA_80 = 1024;    ///< on capability 8.0, and what is unknown
TALC_COST IMPLICIT_RATE_MMA_8X = 512;     ///< on 8.6 and 8.9
TALC_COST IMPLICIT_SHARED = 128;          ///< bytes of shared memory a cycle
TALC_COST IMPLICIT_BUSY = 1.1;            ///< factor of the products of both warpgroups
TALC_COST IMPLICIT_ONE_TAP = 0.72;        ///< factor of loads for one tap
TALC_COST IMPLICIT_LOAD = 1500;           ///< of a K tile, beside its elements
TALC_COST IMPLICIT_STAGED = 350;          ///< of a K tile of bulk-copied rows
TALC_COST IMPLICIT_STAGED_ROUND = 500;    ///< to convert a position a thread
TALC_COST IMPLICIT_STORE_WHOLE = 11500;   ///< to store 8 rows of a tile that begin with a sector
TALC_COST IMPLICIT_STORE_CARRY = 12000;   ///< that carry sectors over
TALC_COST IMPLICIT_STORE_FLAT = 13000;    ///< of a flat tile or of phases
TALC_COST IMPLICIT_STORE_OTHER = 18000;   ///< of other rows
TALC_COST IMPLICIT_TILE = 500;            ///< beside these
TALC_COST IMPLICIT_REST = 0.15;           ///< part of the shorter of products and loads that shows
TALC_COST IMPLICIT_REST_1 = 0.5;          ///< with a single buffer
TALC_COST IMPLICIT_CACHED = 40e6;         ///< bytes of y that the L2 cache holds
TALC_COST IMPLICIT_UNALIGNED = 3.3;       ///< factor of more bytes, of rows within sectors
TALC_COST IMPLICIT_UNALIGNED_FLAT = 1.7;  ///< of flat tiles
TALC_COST IMPLICIT_ADDING = 4e-6;         ///< seconds of the launch that adds splits
TALC_COST IMPLICIT_ADDING_DX = 10e-6;     ///< that finds them among the phases of dx
TALC_COST IMPLICIT_PACKING = 3e-6;        ///< seconds of the launch that packs halo tiles
TALC_COST IMPLICIT_PACKING_MEMORY = 3e12; ///< bytes a second of x and of packed halo tiles
TALC_COST IMPLICIT_PACKERS = 4;           ///< blocks that pack, of a multiprocessor
TALC_COST IMPLICIT_PACK = 4000;           ///< of such a block, beside its elements
TALC_COST IMPLICIT_PACKED = 1.4;          ///< elements a cycle of such a block
TALC_COST IMPLICIT_PACKS = 1.1;           ///< factor of all, where halo tiles are packed
TALC_COST IMPLICIT_COPY = 600;            ///< of a packed K tile, beside its bytes
TALC_COST IMPLICIT_COPIED = 28;           ///< bytes a cycle
TALC_COST IMPLICIT_TRANSPOSING = 3e-6;    ///< seconds of the launch that transposes weights of dx
TALC_COST IMPLICIT_TRANSPOSING_MEMORY = 3e12; ///< bytes a second of those weights
TALC_COST IMPLICIT_RESIDUAL_MEMORY = 1.4e12;  ///< bytes a second of a residual, waited for

/* gather_gemm: of a K tile the longest of products, bytes of the L2 cache and a thread's wait. */
TALC_COST GATHER_MEMORY = 3e12;
TALC_COST GATHER_LAUNCHES = 4e-6;
TALC_COST GATHER_BYTES = 27;     ///< that a cycle brings
TALC_COST GATHER_BUSY = 0.65;    ///< share of the tensor cores' rate
TALC_COST GATHER_WAITING = 1050; ///< of a K tile of planes
TALC_COST GATHER_WINDOWS = 1250; ///< of one gathered through windows
TALC_COST GATHER_GATHERS = 1.5;  ///< factor of x's bytes, through windows
TALC_COST GATHER_REST = 0.3;     ///< part of the shorter two that shows, through windows
TALC_COST GATHER_TILE = 1000;    ///< until its first product
TALC_COST GATHER_ENDING = 3500;  ///< to store a tile, which the blocks of a cluster share
TALC_COST GATHER_ADDING = 3500;  ///< to add up the sums of a cluster
TALC_COST GATHER_CROWD = 0.8;    ///< share of the GPU that clusters of eight fill
TALC_COST GATHER_WAVE = 0.35;    ///< of a wave, for one that is not full

/* pointwise(mma): packing of the weights, then the longer of memory and of a block's tiles. */
TALC_COST POINTWISE_MEMORY = 3.4e12;
TALC_COST POINTWISE_LAUNCHES = 5e-6;
TALC_COST POINTWISE_STEP = 60;       ///< to load a step of 32 positions
TALC_COST POINTWISE_UNALIGNED = 1.5; ///< factor of that, where four positions are no vector
TALC_COST POINTWISE_PRODUCT = 4;     ///< of a step and eight channels
TALC_COST POINTWISE_EIGHT = 40;      ///< to store eight channels
TALC_COST POINTWISE_PACK = 100;      ///< a step of an output channel

/* The weight gradient: packing, then rounds of tiles of 128 positions, then splits. */
TALC_COST WEIGHT_MEMORY = 2e12;
TALC_COST WEIGHT_LAUNCHES = 8e-6;
TALC_COST WEIGHT_ROUND = 6e-6;    ///< seconds of a round's launches
TALC_COST WEIGHT_PACK = 0.65;     ///< passes over what is packed and what it becomes, for wgmma
TALC_COST WEIGHT_PACK_MMA = 1;    ///< for mma.sync
TALC_COST WEIGHT_RATE_MMA = 900;  ///< products a cycle by mma.sync
TALC_COST WEIGHT_TILE_MMA = 1500; ///< beside them
TALC_COST WEIGHT_STEP_64 = 32;    ///< of 64 input channels by wgmma
TALC_COST WEIGHT_STEP_32 = 24;
TALC_COST WEIGHT_BUSY = 1.15; ///< factor of the products of all warpgroups
TALC_COST WEIGHT_WAIT = 400;  ///< of a tap, to wait for its sums and add them
TALC_COST WEIGHT_BYTES = 20;  ///< copied to shared memory a cycle
TALC_COST WEIGHT_TILE = 200;  ///< beside the longest of these

#undef TALC_COST

#endif
