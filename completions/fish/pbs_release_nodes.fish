complete -c pbs_release_nodes -s j -d 'Job id (default: the job in which the command runs)' -r
complete -c pbs_release_nodes -s k -d 'Keep this number of hosts besides the host of the script; or keep what a select needs, such as select=2:ncpus=4+1:ngpus=1, with its first chunk on the host of the script. Release all other nodes' -r
complete -c pbs_release_nodes -s a -d 'All nodes except those on the host of the script'
