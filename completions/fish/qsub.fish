complete -c qsub -s a -d 'Not to start before this time: [[[[CC]YY]MM]DD]hhmm[.SS], local time. Without a day: the next time it is hhmm, which is tomorrow during that minute' -r
complete -c qsub -s A -d 'Account to charge, any text' -r
complete -c qsub -s c -d 'Checkpoint: n, s, c, w, c=MINUTES or w=MINUTES. With n no program of the site\'s checkpoints the job; all else is kept and shown, without effect' -r
complete -c qsub -s e -d 'File for standard error: [host:]path; a folder gets <job id>.ER in it' -r
complete -c qsub -s j -d 'Join output and errors: oe into the output file, eo into the error file, n not at all' -r
complete -c qsub -s k -d 'Output to write in the home folder on the node, from the start: n, or letters of o e; with d (-k oed) straight to its place' -r
complete -c qsub -s l -d 'Resources: select=N:ncpus=4:mem=8gb, place=scatter, walltime=HH:MM:SS (or seconds), ...; sizes take b, kb, mb, gb, tb, pb' -r
complete -c qsub -s m -d 'Mail on abort, begin, end: n, or letters of a b e; j too for each subjob of an array' -r
complete -c qsub -s M -d 'Recipients of mail: plain addresses, user[@host],... (default: the owner)' -r
complete -c qsub -s N -d 'Name of the job: up to 230 letters, digits and - _ + ' -r
complete -c qsub -s o -d 'File for standard output: [host:]path; a folder gets <job id>.OU in it' -r
complete -c qsub -s p -d 'Priority, -1024 to 1023, the highest best; where [order] lowest_is_best, 1 to 9999, the lowest best. How good owners may make it is for the site to say. In the default order it orders the jobs of one owner in one queue and does not affect other users' -r
complete -c qsub -l user-factor -d 'What to leave of the job\'s priority, 0 to 1, where the order is a sum of factors: 1, as if it were not said, leaves all of it' -r
complete -c qsub -l group -d 'Process group, in which its label counts and those it waits for; up to 230 letters, digits and - _ + ' -r
complete -c qsub -l label -d 'Label, by which other jobs of its process group may wait for it before it is there: see DEPENDENCIES' -r
complete -c qsub -l expand -d 'Of an array that limits its subjobs (-J X-Y%N): so many at most where there is room that nobody else wants; -1 or unlimited for any number, 0 for no more than the limit' -r
complete -c qsub -s P -d 'Project' -r
complete -c qsub -s r -d 'Whether the job may be started again from the beginning' -r
complete -c qsub -s R -d 'Output to remove if the job ends with status 0: letters of o e' -r
complete -c qsub -s S -d 'Shell to run the script: path[@host],...' -r
complete -c qsub -s u -d 'Users to run as: user[@host],...; only the owner is accepted' -r
complete -c qsub -s W -d 'Other attributes, joined by commas: umask=OCTAL, run_count=N, depend=afterok:ID (see DEPENDENCIES), group_list=GROUP[@HOST], warn=SIGNAL@TIME (so long before the walltime is over), stagein=LOCAL@HOST:REMOTE, stageout= likewise (^array_index^ in both is a subjob\'s index), sandbox=PRIVATE, retry=N (run it again so often if it fails), retry_delay=HH:MM:SS, max_run_subjobs=N (as -J %N), expand=N (as --expand), no_preempt=true (leave it alone, see lanai-scheduling(7)), interrupt=SIGNAL (sent in place of TERM if it makes way for others), notify=PATH (a program of yours that reads as JSON when the job begins, ends or goes wrong; noded runs it as you, within 30 seconds, 1 GB of memory and 256 processes, and ends all that it has started), those of WHERE IT RUNS, or any attribute by name' -r
complete -c qsub -s C -d 'Prefix of directives in the script, instead of #PBS; empty for no directives' -r
complete -c qsub -s d -d 'Start the job in this folder instead of the working directory' -r
complete -c qsub -s F -d 'What the script is given, in quotes; what stands behind the script on the command line is the same' -r
complete -c qsub -s J -d 'Job array: a subjob for each index from X to Y (X below Y), or each Z-th, of which at most M run at once (0: any number). See ARRAYS' -r
complete -c qsub -s t -d 'As -J, and as in TORQUE and Grid Engine also a single index, or indices and ranges joined by commas' -r
complete -c qsub -s L -d 'Chunks in TORQUE\'s spelling: tasks=N:lprocs=N:memory=SIZE:gpus=N' -r
complete -c qsub -s q -d 'Queue: queue, queue@server or @server' -r
complete -c qsub -s v -d 'Variables for the job: NAME or NAME=VALUE, joined by commas; quotes or \\, keep a comma' -r
complete -c qsub -s w -d 'Start the job in this folder, and let paths of files be relative to it' -r
complete -c qsub -s f -d 'Accepted for PBS\'s sake: there is no helper process to avoid'
complete -c qsub -s h -d 'Hold the job until qrls releases it'
complete -c qsub -s I -d 'Interactive job: a shell on this terminal, on the nodes asked for. Of a script only the directives count. ~. at the start of a line ends the session, ~^Z suspends qsub'
complete -c qsub -s n -d 'Have nodes without other jobs, as -W naccess=singlejob'
complete -c qsub -s V -d 'Hand on the whole environment'
complete -c qsub -s X -d 'Forward X11, for interactive jobs; not supported by this version'
complete -c qsub -s z -d 'Do not print the job\'s id'
complete -c qsub -l dry-run -d 'Check the job and tell when and where it would start; submit nothing, and ask no hooks'
