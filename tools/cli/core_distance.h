/// How far apart the processor's cores are.
#ifndef TALC_TOOLS_CLI_CORE_DISTANCE_H
#define TALC_TOOLS_CLI_CORE_DISTANCE_H

/// Seconds of a cache line's round trip between the first core that the process may use and up to
/// 16 others: the least and the most of them; 0 where there is no other core. Some 90 ns between
/// cores of one L3 cache, 200 to 430 between others.
typedef struct core_distance {
    double least, most;
} core_distance;

core_distance core_distance_measure(void);

#endif
