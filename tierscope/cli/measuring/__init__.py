"""`tierscope measure`: the published comparison, repeated on a deployment of your own."""
