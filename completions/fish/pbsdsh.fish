complete -c pbsdsh -s c -d 'Run this number of copies, on the lines of the node file in order; after the last line, the first follows again' -r
complete -c pbsdsh -s n -d 'Run one copy, on this line of the node file, counted from 0' -r
complete -c pbsdsh -s h -d 'Run one copy, on this host' -r
complete -c pbsdsh -s s -d 'Run one copy after another instead of all at once'
complete -c pbsdsh -s v -d 'Report each start and end'
complete -c pbsdsh -s o -d 'Do not wait for the programs to end'
