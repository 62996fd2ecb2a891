complete -c qalter -s N -d 'Name of the job: up to 230 letters, digits and the characters . - _ +' -r
complete -c qalter -s l -d 'Resources: select=N:ncpus=4:mem=8gb, place=scatter, walltime=HH:MM:SS (or seconds), ... Units of sizes: b, kb, mb, gb, tb, pb' -r
complete -c qalter -s o -d 'File for standard output: [host:]path; if path is a directory, the file is <job id>.OU' -r
complete -c qalter -s e -d 'File for standard error: [host:]path; if path is a directory, the file is <job id>.ER' -r
complete -c qalter -s j -d 'Join output and error: oe (in the output file), eo (in the error file), n (do not join)' -r
complete -c qalter -s a -d 'Do not start before this time: [[[[CC]YY]MM]DD]hhmm[.SS], local time. Without a day, the next occurrence of hhmm; the current minute means tomorrow' -r
complete -c qalter -s p -d 'Priority, -1024 (lowest) to 1023 (highest); if [order] lowest_is_best is set, 1 (highest) to 9999 (lowest). The site limits how far owners may raise the priority. In the default order, the priority orders the jobs of one owner in one queue and does not affect other users' -r
complete -c qalter -s A -d 'Account to charge (any text)' -r
complete -c qalter -s P -d 'Project of the job' -r
complete -c qalter -s r -d 'Whether the job may be requeued and rerun: y or n (default y)' -r
complete -c qalter -l expand -d 'For an array with a limit (-J X-Y%N): run up to this many subjobs when resources would otherwise be idle; -1 or unlimited for any number, 0 to keep the limit' -r
complete -c qalter -l user-factor -d 'Scale the job\'s priority by this factor, 0 to 1 (default 1). Has an effect only if the order of jobs is a sum of factors' -r
complete -c qalter -l group -d 'Process group, the scope of the job\'s label and of its dependencies on labels: up to 230 letters, digits and the characters . - _ +' -r
complete -c qalter -l label -d 'Label of the job: other jobs of the same process group may depend on the label, even before this job is submitted. See DEPENDENCIES' -r
complete -c qalter -s m -d 'Send mail when the job is aborted (a), begins (b) or ends (e), or never (n). With j, also for each subjob of an array' -r
complete -c qalter -s M -d 'Recipients of mail: user[@host],... (default: the owner)' -r
complete -c qalter -s k -d 'Keep standard output (o), standard error (e) or both (oe) in the home directory on the node; n for none. With d (-k oed), write directly to the paths of -o and -e while the job runs' -r
complete -c qalter -s R -d 'Remove the output file (o) or the error file (e) if the job exits with status 0' -r
complete -c qalter -s S -d 'Shell that runs the script: path[@host],...' -r
complete -c qalter -s u -d 'User to run as: user[@host],... Only the owner is accepted' -r
complete -c qalter -s c -d 'Checkpoints: n, s, c, w, c=MINUTES or w=MINUTES. With n, the site never checkpoints the job; the other values are stored and shown but have no effect' -r
complete -c qalter -s W -d 'Other attributes, separated by commas: umask=OCTAL, run_count=N, depend=afterok:ID (see DEPENDENCIES), group_list=GROUP[@HOST], warn=SIGNAL@TIME (send SIGNAL when TIME of the walltime is left), stagein=LOCAL@HOST:REMOTE, stageout= likewise (^array_index^ in both stands for the index of a subjob), sandbox=PRIVATE, retry=N (rerun the job up to N times if it fails), retry_delay=HH:MM:SS, max_run_subjobs=N (as -J %N), expand=N (as --expand), no_preempt=true (do not preempt the job, see lanai-scheduling(7)), interrupt=SIGNAL (sent instead of TERM when the job is preempted), notify=PATH (your own program; it reads JSON from standard input when the job begins, ends or fails; noded runs it as you, for at most 30 seconds, with 1 GB of memory and 256 processes, and then ends all its processes), the attributes of WHERE IT RUNS, or any attribute by name' -r
complete -c qalter -s h -d 'Holds: letters of u (user), o (operator), s (system), p (password), or n (none)' -r
complete -c qalter -l system-priority -d 'System priority, 0 to 1000000, or none to remove it (operators only). In its tier (see lanai-scheduling(7)), the job precedes jobs with a lower or no system priority' -r
complete -c qalter -l retry -d 'Run failed or deleted jobs again: each job returns to its queue and keeps its id. For an array, all failed and deleted subjobs run again; for 12[3] or 12[1-9], only the given subjobs. Cannot be combined with other options'
complete -c qalter -l shove -d 'Consider the jobs now: a job that waits after a failed start, or for its retry_delay, can start at once. Holds and begin times still apply. Changes by other options are made first'
