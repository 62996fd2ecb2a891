complete -c noded -l nodes -d 'Present this many nodes, named NAME1, NAME2, ..., each as if it were a host of its own' -r
complete -c noded -l ncpus -d 'Processors of each node, instead of those detected' -r
complete -c noded -l mem -d 'Memory of each node (a PBS size: 512mb, 8gb), instead of that detected' -r
complete -c noded -l ngpus -d 'GPUs of each node, instead of those detected' -r
complete -c noded -l name -d 'The node\'s name, or with --nodes what their names begin with; the host\'s short name if not given' -r
complete -c noded -l socket -d 'Listen here instead of at noded.sock in the installation\'s runtime folder' -r -F
complete -c noded -l state -d 'Keep running jobs\' records here instead of in the installation\'s state folder' -r -F
complete -c noded -l min-uid -d 'As root, run no jobs of users with lower numbers than this, instead of min_uid in lanai.toml' -r
complete -c noded -l schedd-uid -d 'Take orders from a schedd that runs as this user, besides root and noded\'s own user' -r
complete -c noded -l exit-when-idle -d 'Leave when no schedd has been connected and no job has run for this long' -r
complete -c noded -l hollow -d 'Only pretend to run jobs: each ends with exit status 0 after HOLLOW_RUNTIME seconds, if that is set in its environment, else after its walltime, else at once'
complete -c noded -l shared -d 'Many users share this installation: never run root\'s jobs (implied by /etc/lanai/lanai.toml, and by shared = true in another lanai.toml)'
complete -c noded -l no-cgroups -d 'Do without control groups: find a job\'s processes by their parents, even where groups could be made'
complete -c noded -l foreground -d 'Stay in the foreground and log to standard error'
complete -c noded -s h -l help -d 'Print help (see more with \'--help\')'
complete -c noded -s V -l version -d 'Print version'
