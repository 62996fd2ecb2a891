complete -c qalter -s a -d 'Not to start before this time: [[[[CC]YY]MM]DD]hhmm[.SS], local time. Without a day: the next time it is hhmm, which is tomorrow during that minute' -r
complete -c qalter -s A -d 'Account to charge, any text' -r
complete -c qalter -s c -d 'Checkpoint: n, s, c, w, c=MINUTES or w=MINUTES. With n no program of the site\'s checkpoints the job; all else is kept and shown, without effect' -r
complete -c qalter -s e -d 'File for standard error: [host:]path; a folder gets <job id>.ER in it' -r
complete -c qalter -s j -d 'Join output and errors: oe into the output file, eo into the error file, n not at all' -r
complete -c qalter -s k -d 'Output to write in the home folder on the node, from the start: n, or letters of o e; with d (-k oed) straight to its place' -r
complete -c qalter -s l -d 'Resources: select=N:ncpus=4:mem=8gb, place=scatter, walltime=HH:MM:SS (or seconds), ...; sizes take b, kb, mb, gb, tb, pb' -r
complete -c qalter -s m -d 'Mail on abort, begin, end: n, or letters of a b e; j too for each subjob of an array' -r
complete -c qalter -s M -d 'Recipients of mail: plain addresses, user[@host],... (default: the owner)' -r
complete -c qalter -s N -d 'Name of the job: up to 230 letters, digits and - _ + ' -r
complete -c qalter -s o -d 'File for standard output: [host:]path; a folder gets <job id>.OU in it' -r
complete -c qalter -s p -d 'Priority, -1024 to 1023, the highest best; where [order] lowest_is_best, 1 to 9999, the lowest best. How good owners may make it is for the site to say. In the default order it orders the jobs of one owner in one queue and does not affect other users' -r
complete -c qalter -l user-factor -d 'What to leave of the job\'s priority, 0 to 1, where the order is a sum of factors: 1, as if it were not said, leaves all of it' -r
complete -c qalter -l group -d 'Process group, in which its label counts and those it waits for; up to 230 letters, digits and - _ + ' -r
complete -c qalter -l label -d 'Label, by which other jobs of its process group may wait for it before it is there: see DEPENDENCIES' -r
complete -c qalter -l expand -d 'Of an array that limits its subjobs (-J X-Y%N): so many at most where there is room that nobody else wants; -1 or unlimited for any number, 0 for no more than the limit' -r
complete -c qalter -s P -d 'Project' -r
complete -c qalter -s r -d 'Whether the job may be started again from the beginning' -r
complete -c qalter -s R -d 'Output to remove if the job ends with status 0: letters of o e' -r
complete -c qalter -s S -d 'Shell to run the script: path[@host],...' -r
complete -c qalter -s u -d 'Users to run as: user[@host],...; only the owner is accepted' -r
complete -c qalter -s W -d 'Other attributes, joined by commas: umask=OCTAL, run_count=N, depend=afterok:ID (see DEPENDENCIES), group_list=GROUP[@HOST], warn=SIGNAL@TIME (so long before the walltime is over), stagein=LOCAL@HOST:REMOTE, stageout= likewise (^array_index^ in both is a subjob\'s index), sandbox=PRIVATE, retry=N (run it again so often if it fails), retry_delay=HH:MM:SS, max_run_subjobs=N (as -J %N), expand=N (as --expand), no_preempt=true (leave it alone, see lanai-scheduling(7)), interrupt=SIGNAL (sent in place of TERM if it makes way for others), notify=PATH (a program of yours that reads as JSON when the job begins, ends or goes wrong; noded runs it as you, within 30 seconds, 1 GB of memory and 256 processes, and ends all that it has started), those of WHERE IT RUNS, or any attribute by name' -r
complete -c qalter -s h -d 'Holds: letters of u (user), o (operator), s (system), p (password), or n for none' -r
complete -c qalter -l system-priority -d 'Before all jobs without one, and before those with a lower one: 0 to 1000000, or none; for operators' -r
complete -c qalter -l retry -d 'Run jobs once more that have failed or were deleted: each comes back into its queue under its id, an array with those of its subjobs that did, a subjob or a range of them (12[3], 12[1-9]) alone. Stands without other options'
complete -c qalter -l shove -d 'Have the scheduler look at these jobs now: one that was put off after a failed start, or for its retry_delay, may start at once. A hold or a begin time stays. Other changes are made first'
