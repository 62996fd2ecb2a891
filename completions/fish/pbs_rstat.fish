complete -c pbs_rstat -s f -d 'All attributes'
complete -c pbs_rstat -s F -d 'The same; followed by json, as JSON'
complete -c pbs_rstat -s B -d 'Ids alone'
complete -c pbs_rstat -s S -d 'One line for each, as without options'
