complete -c pbs_release_nodes -s j -d 'Job id (default: the job in which the command runs)' -r
complete -c pbs_release_nodes -s k -d 'Release all but this number of hosts, besides the host of the script; or all that the given select does not need, such as select=2:ncpus=4+1:ngpus=1, whose first chunk is on the host of the script' -r
complete -c pbs_release_nodes -s a -d 'All nodes except those on the host of the script'
