complete -c qrls -s h -d 'Holds to release, as letters: u (user), o (operator), s (system), p (password), n (none); default u' -r
