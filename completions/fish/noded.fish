complete -c noded -l nodes -d 'Present N nodes, named NAME1, NAME2, ..., each like a separate host' -r
complete -c noded -l ncpus -d 'Processors of each node (default: the detected processors, divided among the nodes)' -r
complete -c noded -l mem -d 'Memory of each node, such as 512mb or 8gb (default: the detected memory, divided among the nodes)' -r
complete -c noded -l ngpus -d 'GPUs of each node (default: the detected GPUs, or 0 with several nodes)' -r
complete -c noded -l name -d 'Node name, or with --nodes the prefix of all node names (default: the host\'s short name)' -r
complete -c noded -l socket -d 'Socket to listen on (default: noded.sock in the installation\'s runtime directory)' -r -F
complete -c noded -l state -d 'Directory for records of running jobs (default: in the installation\'s state directory)' -r -F
complete -c noded -l min-uid -d 'As root, refuse jobs of users with a lower uid (default: min_uid in lanai.toml)' -r
complete -c noded -l schedd-uid -d 'Accept orders from a schedd that runs as this user, in addition to root and noded\'s own user' -r
complete -c noded -l exit-when-idle -d 'Exit after this time without a connected schedd and without running jobs' -r
complete -c noded -l hollow -d 'Simulate jobs instead of running them: a job ends with exit status 0 after HOLLOW_RUNTIME seconds (if set in the job\'s environment), else after its walltime, else at once'
complete -c noded -l shared -d 'Run jobs of many users, but never jobs of root (implied by /etc/lanai/lanai.toml, and by shared = true in another lanai.toml)'
complete -c noded -l no-cgroups -d 'Do not use cgroups, even if they are available: find the processes of a job by their parents'
complete -c noded -l foreground -d 'Stay in the foreground and log to standard error'
complete -c noded -s h -l help -d 'Print help (see more with \'--help\')'
complete -c noded -s V -l version -d 'Print version'
