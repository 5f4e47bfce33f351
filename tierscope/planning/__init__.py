"""What it takes to run this project itself at a given size, from measured costs."""
