complete -c pbs_rstat -s f -d 'Show all attributes'
complete -c pbs_rstat -s F -d 'As -f; followed by json, as JSON'
complete -c pbs_rstat -s B -d 'Show ids only'
complete -c pbs_rstat -s S -d 'Show one line for each reservation (the default)'
