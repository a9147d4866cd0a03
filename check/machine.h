/// How problems that are checked at once share the host's memory. Private to check/.
#ifndef TALC_CHECK_MACHINE_H
#define TALC_CHECK_MACHINE_H

/// Waits for `bytes` of the memory that was free when nothing was checked: those who share have a quarter of it, and who
/// needs more has the machine alone. First come, first served.
void talc_check_machine_enter(double bytes);

/// Gives them back.
void talc_check_machine_leave(double bytes);

#endif
