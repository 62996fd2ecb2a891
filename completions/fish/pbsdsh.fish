complete -c pbsdsh -s c -d 'So many copies, one for each line of the node file, and from its beginning again when there are more' -r
complete -c pbsdsh -s n -d 'On this line of the node file alone, counted from 0' -r
complete -c pbsdsh -s h -d 'On this host alone' -r
complete -c pbsdsh -s s -d 'One after another, instead of all at once'
complete -c pbsdsh -s v -d 'Tell of each start and each end'
complete -c pbsdsh -s o -d 'Do not wait for the programs to end'
