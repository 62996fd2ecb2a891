complete -c qsub -s N -d 'Name of the job: up to 230 letters, digits and the characters . - _ +' -r
complete -c qsub -s l -d 'Resources: select=N:ncpus=4:mem=8gb, place=scatter, walltime=HH:MM:SS (or seconds), ... Units of sizes: b, kb, mb, gb, tb, pb' -r
complete -c qsub -s o -d 'File for standard output: [host:]path; if path is a directory, the file is <job id>.OU' -r
complete -c qsub -s e -d 'File for standard error: [host:]path; if path is a directory, the file is <job id>.ER' -r
complete -c qsub -s j -d 'Join output and error: oe (in the output file), eo (in the error file), n (do not join)' -r
complete -c qsub -s a -d 'Do not start before this time: [[[[CC]YY]MM]DD]hhmm[.SS], local time. Without a day, the next occurrence of hhmm; the current minute means tomorrow' -r
complete -c qsub -s p -d 'Priority, -1024 (lowest) to 1023 (highest); if [order] lowest_is_best is set, 1 (highest) to 9999 (lowest). The site limits how far owners may raise the priority. In the default order, the priority orders the jobs of one owner in one queue and does not affect other users' -r
complete -c qsub -s A -d 'Account to charge (any text)' -r
complete -c qsub -s P -d 'Project of the job' -r
complete -c qsub -s r -d 'Whether the job may be requeued and rerun: y or n (default y)' -r
complete -c qsub -l expand -d 'For an array with a limit (-J X-Y%N): run up to this many subjobs when resources would otherwise be idle; -1 or unlimited for any number, 0 to keep the limit' -r
complete -c qsub -l user-factor -d 'Scale the job\'s priority by this factor, 0 to 1 (default 1). Has an effect only if the order of jobs is a sum of factors' -r
complete -c qsub -l group -d 'Process group, the scope of the job\'s label and of its dependencies on labels: up to 230 letters, digits and the characters . - _ +' -r
complete -c qsub -l label -d 'Label of the job: other jobs of the same process group may depend on the label, even before this job is submitted. See DEPENDENCIES' -r
complete -c qsub -s m -d 'Send mail when the job is aborted (a), begins (b) or ends (e), or never (n). With j, also for each subjob of an array' -r
complete -c qsub -s M -d 'Recipients of mail: user[@host],... (default: the owner)' -r
complete -c qsub -s k -d 'Keep standard output (o), standard error (e) or both (oe) in the home directory on the node; n for none. With d (-k oed), write directly to the paths of -o and -e while the job runs' -r
complete -c qsub -s R -d 'Remove the output file (o) or the error file (e) if the job exits with status 0' -r
complete -c qsub -s S -d 'Shell that runs the script: path[@host],...' -r
complete -c qsub -s u -d 'User to run as: user[@host],... Only the owner is accepted' -r
complete -c qsub -s c -d 'Checkpoints: n, s, c, w, c=MINUTES or w=MINUTES. With n, the site never checkpoints the job; the other values are stored and shown but have no effect' -r
complete -c qsub -s W -d 'Other attributes, separated by commas: umask=OCTAL, run_count=N, depend=afterok:ID (see DEPENDENCIES), group_list=GROUP[@HOST], warn=SIGNAL@TIME (send SIGNAL when TIME of the walltime is left), stagein=LOCAL@HOST:REMOTE, stageout= likewise (^array_index^ in both stands for the index of a subjob), sandbox=PRIVATE, retry=N (rerun the job up to N times if it fails), retry_delay=HH:MM:SS, max_run_subjobs=N (as -J %N), expand=N (as --expand), no_preempt=true (do not preempt the job, see lanai-scheduling(7)), interrupt=SIGNAL (sent instead of TERM when the job is preempted), notify=PATH (your own program; it reads JSON from standard input when the job begins, ends or fails; noded runs it as you, for at most 30 seconds, with 1 GB of memory and 256 processes, and then ends all its processes), the attributes of WHERE IT RUNS, or any attribute by name' -r
complete -c qsub -s q -d 'Queue: queue, queue@server or @server' -r
complete -c qsub -s J -d 'Job array: one subjob for each index from X to Y (X below Y), or for each Z-th index; at most M subjobs run at once (0: no limit). See ARRAYS' -r
complete -c qsub -s v -d 'Variables of the job: NAME,NAME=VALUE,...; precede a comma in a value by a backslash, or quote the value' -r
complete -c qsub -s t -d 'Job array as with -J; also a single index, or indices and ranges separated by commas, as in TORQUE and Grid Engine' -r
complete -c qsub -s L -d 'Chunks in TORQUE\'s syntax: tasks=N:lprocs=N:memory=SIZE:gpus=N' -r
complete -c qsub -s d -d 'Start the job in this directory; relative paths of files still refer to the directory where qsub runs' -r
complete -c qsub -s w -d 'Start the job in this directory; relative paths of files refer to this directory' -r
complete -c qsub -s F -d 'Arguments of the script, quoted as one word; the same as words after the script' -r
complete -c qsub -s C -d 'Prefix of directives in the script (default #PBS); with an empty prefix there are no directives' -r
complete -c qsub -s I -d 'Interactive job: a shell on this terminal, on the allocated nodes. If a script is given, only its directives are used; its commands are not run. ~. at the start of a line ends the session, ~^Z suspends qsub'
complete -c qsub -s V -d 'Export all environment variables, except PBS_O_*, to the job'
complete -c qsub -s h -d 'Hold the job until qrls releases it'
complete -c qsub -l dry-run -d 'Show when and where the job would start; submit nothing, run no hooks'
complete -c qsub -s n -d 'Use nodes exclusively, as with -W naccess=singlejob'
complete -c qsub -s z -d 'Do not print the job id'
complete -c qsub -s X -d 'Forward X11 to an interactive job; not supported by this version'
complete -c qsub -s f -d 'Accepted for compatibility with PBS; has no effect'
