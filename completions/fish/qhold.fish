complete -c qhold -s h -d 'Holds to set, as letters: u (user), o (operator), s (system), p (password), n (none); default u' -r
